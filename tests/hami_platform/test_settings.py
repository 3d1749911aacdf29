from __future__ import annotations

import pathlib
import stat
import threading

import pytest
from django.conf import settings
from django.db import connection
from django.http import HttpRequest
from django.test import Client

from hami_platform import secret_key, signin, urls


@pytest.mark.ledger
@pytest.mark.only("sqlite")
@pytest.mark.django_db
def test_sqlite_writes_ahead_and_waits() -> None:
    with connection.cursor() as cursor:
        pragmas = {name: cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}
        assert pragmas == {"journal_mode": "wal", "synchronous": 1}
        assert cursor.execute("PRAGMA busy_timeout").fetchone()[0] == 20000
    assert connection.transaction_mode == "IMMEDIATE"  # type: ignore[attr-defined]


@pytest.mark.ledger
@pytest.mark.only("postgresql")
@pytest.mark.django_db
def test_postgres_waits_are_bounded() -> None:
    with connection.cursor() as cursor:
        for name in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"):
            cursor.execute("SELECT setting::int FROM pg_settings WHERE name = %s", [name])
            assert cursor.fetchone()[0] > 0
        cursor.execute("SELECT setting FROM pg_settings WHERE name = 'lock_timeout'")
        assert cursor.fetchone() == ("1000",)
        cursor.execute("SHOW transaction_isolation")
        assert cursor.fetchone() == ("read committed",)


def test_requests_are_not_wrapped_in_transactions() -> None:
    assert settings.DATABASES["default"]["ATOMIC_REQUESTS"] is False


def test_machines_get_only_their_own_routes() -> None:
    web = {str(route.pattern) for route in urls.routes("web")}
    assert "admin/" in web
    for role in ("webhook", "extender"):
        assert not web & {str(route.pattern) for route in urls.routes(role)} - {""}


@pytest.mark.django_db
def test_every_page_forbids_scripts_and_frames_from_elsewhere(client: Client) -> None:
    response = client.get("/accounts/login/")
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.django_db
def test_nobody_signs_up_by_themselves(client: Client) -> None:
    assert not signin.LocalAccounts().is_open_for_signup(HttpRequest())
    client.post("/accounts/signup/", {"username": "eve", "password1": "long-enough-1", "password2": "long-enough-1"})
    assert not client.login(username="eve", password="long-enough-1")


def test_the_admin_sends_strangers_to_the_common_login(client: Client) -> None:
    response = client.get("/admin/login/")
    assert response.status_code == 302
    assert response.headers["Location"].startswith("/accounts/login/")


def test_processes_that_start_together_agree_on_one_secret_key(tmp_path: pathlib.Path) -> None:
    found: list[str] = []
    together = threading.Barrier(8)

    def start() -> None:
        together.wait()
        found.append(secret_key.kept_in(tmp_path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found[0]) > 40
    assert [path.name for path in tmp_path.iterdir()] == ["secret-key"]
    assert stat.S_IMODE((tmp_path / "secret-key").stat().st_mode) == 0o600
