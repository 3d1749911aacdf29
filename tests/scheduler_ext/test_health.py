"""Health of a listener, item by item."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command
from django.test import Client

from accounting import ledger
from hami_platform import env
from scheduler_ext import urls
from tests.scheduler_ext.world import World


def test_a_process_whose_ledger_was_compared_is_ready(world: World) -> None:
    answer = Client().get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "items": {"database": "ok", "view": "ok", "compared": "ok"}}


def test_before_the_first_compare_a_process_is_alive_and_not_ready(transactional_db: None) -> None:
    assert Client().get("/healthz").status_code == 200
    answer = Client().get("/readyz")
    assert answer.status_code == 503
    items = answer.json()["items"]
    assert (items["database"], items["view"]) == ("ok", "ok")
    assert "not been compared" in items["compared"]


def test_without_a_database_the_item_says_why(world: World) -> None:
    ledger.breaker._why = "database: it is gone"
    try:
        answer = Client().get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["items"]["database"] == "database: it is gone"
        assert Client().get("/healthz").status_code == 200
    finally:
        ledger.breaker._why = ""


def test_without_a_database_a_listener_stays_alive_and_started(world: World) -> None:
    """Restarting it would not bring a database back."""
    ledger.breaker._why = "database: it is gone"
    try:
        for path in ("/livez", "/healthz", "/startupz"):
            assert Client().get(path).status_code == 200
        told = Client().get("/livez?verbose").content.decode()
        assert "[+]process ok" in told
        assert "[ ]database failed: database: it is gone" in told
    finally:
        ledger.breaker._why = ""


def test_verbose_readiness_itemises_every_dependency(world: World) -> None:
    answer = Client().get("/readyz?verbose")
    lines = answer.content.decode().splitlines()
    assert {line[3:].split()[0] for line in lines[:-1]} == {
        "process", "database", "view", "compared", "watched", "cache",
    }  # fmt: skip
    assert lines[-1] == "readyz check passed"
    assert "No watcher runs" in next(line for line in lines if "watched" in line)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/startupz", "/readyz", "/metrics"])
def test_health_is_only_read(path: str) -> None:
    answer = Client().post(path)
    assert (answer.status_code, answer.content) == (405, b"Method Not Allowed")


def test_metrics_are_shown() -> None:
    answer = Client().get("/metrics")
    assert answer.status_code == 200
    assert b"hami_platform_filter_duration_seconds" in answer.content


@pytest.mark.parametrize("role,paths", [("webhook", {"webhook", "refit"}), ("extender", {"filter", "bind"})])
def test_a_listener_answers_its_own_paths_and_no_others(role: str, paths: set[str]) -> None:
    found = {str(one.pattern) for one in urls.routes(role)}
    assert found == paths | {"healthz", "livez", "startupz", "readyz", "metrics"}


def test_only_post_reaches_the_extender(world: World) -> None:
    assert Client().get("/filter").status_code == 405


def printed(capsys: Any, *args: str) -> Any:
    call_command("webhook_config", *args)
    return yaml.safe_load(capsys.readouterr().out)


def test_the_printed_configuration_names_our_resources_and_keys(capsys: Any, tmp_path: Any) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("PEM")
    made = printed(capsys, "--url", "https://127.0.0.1:9443/webhook", "--ca-file", str(ca))
    create, update = made["webhooks"]
    assert create["clientConfig"]["url"] == "https://127.0.0.1:9443/webhook"
    assert '"nvidia.com/gpu"' in create["matchConditions"][0]["expression"]
    assert '"hami.io/vgpu-devices-allocated"' in update["matchConditions"][0]["expression"]


def test_the_printed_configuration_trusts_our_own_authority_by_default(capsys: Any) -> None:
    made = printed(capsys, "--service", "webhook", "--namespace", "gpu", "--format", "json")
    assert made["webhooks"][0]["clientConfig"]["caBundle"]
    made = printed(capsys, "--service", "webhook", "--namespace", "gpu", "--no-ca")
    assert "caBundle" not in made["webhooks"][0]["clientConfig"]


def test_what_is_missing_for_a_configuration_is_named(tmp_path: Any) -> None:
    with pytest.raises(CommandError, match="either a url, or a service"):
        call_command("webhook_config")
    with pytest.raises(CommandError, match="No such file"):
        call_command("webhook_config", "--url", "https://x/webhook", "--ca-file", str(tmp_path / "none"))
    with env.override(tls_cert_file="c", tls_key_file="k"), pytest.raises(CommandError, match="--ca-file"):
        call_command("webhook_config", "--url", "https://x/webhook")
