"""The throw-away database of a run: an SQLite file in a folder of its own, a fresh copy for every vector.

The configured database is never opened: the connection is pointed elsewhere before anything asks for it. Must not know:
vectors.
"""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

from django.apps import apps
from django.core.management import call_command
from django.db import connections
from django.test.utils import override_settings

ALIAS = "default"


class Database:
    """An empty, migrated database that can be had anew."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._file, self._empty = folder / "ledger.sqlite3", folder / "empty.sqlite3"

    def make(self) -> None:
        """Create the tables once, from the models: far faster than by migrations, which other tests hold to them."""
        with override_settings(MIGRATION_MODULES=dict.fromkeys(app.label for app in apps.get_app_configs())):
            call_command("migrate", verbosity=0, interactive=False, run_syncdb=True)
        connections[ALIAS].close()
        shutil.copyfile(self._file, self._empty)

    def renew(self) -> None:
        """Throw away what was written since `make`."""
        connections[ALIAS].close()
        for end in ("-wal", "-shm"):
            self._file.with_name(self._file.name + end).unlink(missing_ok=True)
        shutil.copyfile(self._empty, self._file)


@contextlib.contextmanager
def throw_away() -> Iterator[Database]:
    """While the block runs, this process's database is a new file that is deleted afterwards."""
    before = connections.settings[ALIAS]
    with tempfile.TemporaryDirectory(prefix="conformance-") as name:
        folder = pathlib.Path(name)
        _point(_sqlite(before, folder / "ledger.sqlite3"))
        try:
            made = Database(folder)
            made.make()
            yield made
        finally:
            connections[ALIAS].close()
            _point(before)


def _sqlite(before: dict[str, object], file: pathlib.Path) -> dict[str, object]:
    """Like the product's own SQLite settings, except that nothing has to survive a power cut."""
    pragmas = "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF;"
    return {
        **before,
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(file),
        "USER": "",
        "PASSWORD": "",
        "HOST": "",
        "PORT": "",
        "CONN_MAX_AGE": None,
        "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE", "init_command": pragmas},
    }


def _point(settings: dict[str, object]) -> None:
    """From now on this thread's connection is made from these settings; one that was made before is put away."""
    connections.settings[ALIAS] = settings
    if hasattr(connections._connections, ALIAS):  # type: ignore[attr-defined]
        del connections[ALIAS]
