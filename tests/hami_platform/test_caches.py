"""The cache while Redis is away, and after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.cache import caches
from django.test import Client

from hami_platform import caches as ours
from hami_platform import settings
from tests.chaos import own_servers
from tests.cluster import processes


@pytest.fixture
def server(tmp_path: Path) -> Iterator[own_servers.Redis]:
    one = own_servers.Redis(tmp_path)
    yield one
    one.kill()


def test_without_redis_this_process_counts_for_itself(
    server: own_servers.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ours.RedisOrMemory(server.url, {})
    cache.set("tries", 1)
    assert cache.incr("tries") == 2
    server.kill()
    assert cache.get("tries") is None
    assert cache.add("tries", 7)
    assert cache.incr("tries") == 8
    assert cache.get_many(["tries"]) == {"tries": 8}
    server.start()
    monkeypatch.setattr(ours, "PAUSE_S", 0.0)
    cache.again_at_s = 0.0
    assert cache.get("tries") is None
    cache.set("tries", 3)
    assert ours.RedisOrMemory(server.url, {}).get("tries") == 3


@pytest.mark.django_db
def test_people_can_sign_in_without_redis(settings_of_production: None) -> None:
    answer = Client(raise_request_exception=False).post("/accounts/login/", {"login": "ann", "password": "wrong"})
    assert answer.status_code == 200
    assert "password" in answer.content.decode()


@pytest.fixture
def settings_of_production(settings: pytest.FixtureRequest) -> None:
    (port,) = processes.free_ports(1)
    settings.CACHES = {"default": ours_in_settings(f"redis://127.0.0.1:{port}/0")}  # type: ignore[attr-defined]
    assert isinstance(caches["default"], ours.RedisOrMemory)


def ours_in_settings(url: str) -> dict[str, object]:
    """As the product's settings say it for a Redis at this address."""
    return {**settings.REDIS_CACHE, "LOCATION": url}
