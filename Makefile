# Everything a contributor runs. `make` alone lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.made-from-requirements
ARGS ?=

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(STAMP) ## Make .venv with everything the platform and its tests need

$(STAMP): requirements.txt requirements-dev.txt scripts/venv
	@VENV=$(VENV) scripts/venv
	@touch $@

.PHONY: requirements
requirements: $(STAMP) ## Compile requirements*.in to requirements*.txt
	$(BIN)/uv pip compile --quiet --python-version 3.11 --no-header --no-emit-find-links --no-emit-index-url --strip-extras $(ARGS) requirements.in -o requirements.txt
	$(BIN)/uv pip compile --quiet --python-version 3.11 --no-header --no-emit-find-links --no-emit-index-url --strip-extras $(ARGS) requirements-dev.in -o requirements-dev.txt

PYTEST := $(BIN)/python -m pytest
# As many workers as a small machine has cores; more only where there are more.
WORKERS ?= 2
PACKAGES := hami_platform accounting scheduler_ext deviceplugin tests scripts manage.py

.PHONY: demo
demo: $(STAMP) ## Run the whole platform on this machine with a simulated cluster (no services needed)
	@$(BIN)/python -m hami_platform.demo $(ARGS)

.PHONY: test
test: $(STAMP) ## Run the tests on SQLite, then the database's own again on PostgreSQL
	@echo "== all tests, on SQLite"
	time $(PYTEST) -q -n $(WORKERS) $(ARGS)
	@echo "== tests of database semantics, on PostgreSQL"
	time TEST_LEDGER=postgres $(PYTEST) -q -n $(WORKERS) -m "ledger and not perf and not soak" $(ARGS)

.PHONY: coverage
coverage: $(STAMP) ## Run the tests on SQLite and tell what they do not reach
	$(PYTEST) -q -n $(WORKERS) --cov --cov-report=term:skip-covered $(ARGS)

.PHONY: lint
lint: $(STAMP) ## Check style, types, import contracts, migrations and generated pages
	$(BIN)/ruff check $(PACKAGES)
	$(BIN)/ruff format --check $(PACKAGES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	HAMI_STATE_DIR=.state/lint $(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python -m scripts.configuration --check
	$(BIN)/python -m scripts.manifests --check

.PHONY: format
format: $(STAMP) ## Format the code and mend what can be mended
	$(BIN)/ruff format $(PACKAGES)
	$(BIN)/ruff check --fix $(PACKAGES)

.PHONY: docs
docs: $(STAMP) ## Write the pages and manifests that are made from code
	$(BIN)/python -m scripts.configuration
	$(BIN)/python -m scripts.manifests
	$(BIN)/python manage.py spectacular --file docs/openapi.yaml --fail-on-warn

.PHONY: control-plane
control-plane: $(STAMP) ## Build etcd, Kubernetes and kwok for the tests, once per version (needs Go)
	$(BIN)/python -m tests.cluster.binaries

.PHONY: e2e
e2e: control-plane ## Run the acceptance tests on a real control plane
	time $(PYTEST) -q -n0 -m e2e tests/e2e $(ARGS)

.PHONY: browser
browser: $(STAMP) ## Run the console's tests in chromium
	time $(PYTEST) -q -n0 -m browser tests/browser $(ARGS)

.PHONY: bench
bench: $(STAMP) ## Measure against the budgets (ARGS=--quick for a short run)
	time $(PYTEST) -q -s -n0 -m perf tests/perf $(ARGS)

.PHONY: soak
soak: $(STAMP) ## Run for minutes under load and faults
	time $(PYTEST) -q -n0 -m soak tests $(ARGS)

.PHONY: messages
messages: $(STAMP) ## Collect texts for translation and compile the translated ones
	$(BIN)/python -m scripts.messages
