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
