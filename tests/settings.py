"""Django's settings for tests: the product's own, with a state folder that lasts as long as the run.

Runs on SQLite; with TEST_LEDGER=postgres on PostgreSQL (`make test` does both). Variables that the developer has set
for a real installation do not reach the tests.
"""

from __future__ import annotations

import os

from tests import servers

_KEPT = {"HAMI_E2E_BIN"}
for _name in [name for name in os.environ if name.startswith("HAMI_") and name not in _KEPT]:
    del os.environ[_name]
for _name in ("KUBECONFIG", "NODE_NAME", "POD_NAME", "POD_NAMESPACE", "HOOK_PATH"):
    os.environ.pop(_name, None)

# Processes that a test starts are the product's: they read its settings, and these variables where the test sets none.
os.environ["DJANGO_SETTINGS_MODULE"] = "hami_platform.settings"
os.environ["HAMI_STATE_DIR"] = str(servers.run_folder() / "state")
os.environ["HAMI_SECRET_KEY"] = "only for tests"
# A test may rest inside a transaction or be slowed down by its neighbours; those about the limits set their own.
os.environ["HAMI_STATEMENT_TIMEOUT"] = "60s"
os.environ["HAMI_IDLE_TRANSACTION_TIMEOUT"] = "60s"
os.environ["HAMI_REST_REQUESTS_PER_MINUTE"] = "0"
if os.environ.get("TEST_LEDGER") == "postgres":
    os.environ["HAMI_DATABASE_URL"] = servers.postgres_url()

from hami_platform.settings import *  # noqa: E402, F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the real one takes its time by design
