"""Processes that stop and servers that end while pods come and go, on a real control plane.

| done | expected |
|---|---|
| SIGSTOP and SIGCONT of each process | everything goes on from where it was; the ledger is what the cluster is |
| kube-apiserver killed and started again | binds under way are settled, watches come back |
| Redis forgets every tick | the next ones are sent |
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis

from tests.cluster import control_plane, kube, nodes
from tests.cluster.kube import eventually
from tests.cluster.platform import Platform
from tests.cluster.space import Space

STOPPED_S = {"extender": 4, "webhook": 4, "watcher": 20, "worker": 4, "beat": 4}
KEPT = 12


@contextmanager
def pods_coming_and_going(platform: Platform, team: Space) -> Iterator[None]:
    """Pods are created, run and are deleted meanwhile; afterwards the ledger is what the cluster is."""
    done = threading.Event()
    faults: list[Exception] = []
    stream = threading.Thread(target=_stream, args=(team, done, faults))
    stream.start()
    try:
        eventually("pods run", lambda: sum(map(_runs, team.pods())) >= KEPT // 2, within_s=60)
        yield
    finally:
        done.set()
        stream.join(120)
    assert faults == []
    team.create_insisting(nodes.pod("afterwards", nodes.container(gpu=1, gpumem=4096)))
    eventually("every pod runs", lambda: _all_run(platform, team), within_s=120)
    eventually("the ledger agrees", lambda: platform.manage("selfcheck", check=False).returncode == 0, within_s=60)
    held = platform.ledger.devices().values()
    assert [use for use in held if use["memory_mib"] > nodes.MEMORY_MIB or use["slots"] > nodes.SLOTS] == []


def _stream(team: Space, done: threading.Event, faults: list[Exception]) -> None:
    number = 0
    try:
        while not done.wait(0.25):
            pod = nodes.pod(f"c-{number:03d}", nodes.container(gpu=1, gpumem=4096))
            _insist(lambda pod=pod: team.create_insisting(pod, within_s=90))
            if number >= KEPT:
                _insist(lambda name=f"c-{number - KEPT:03d}": team.delete(name))
            number += 1
    except Exception as fault:  # noqa: BLE001 - shown by the test that waits
        faults.append(fault)


def _insist(ask: Callable[[], object]) -> None:
    """As a controller does: again while nobody answers."""
    until = time.monotonic() + 90
    while True:
        try:
            ask()
        except (OSError, http.client.HTTPException, kube.ApiError):
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
        else:
            return


def _all_run(platform: Platform, team: Space) -> bool:
    platform.plane.revive()
    return all(map(_runs, team.pods()))


def _runs(pod: kube.Object) -> bool:
    return bool(pod["status"].get("phase") == "Running")


@pytest.mark.parametrize("role", STOPPED_S)
def test_a_stopped_process_goes_on_from_where_it_was(platform: Platform, team: Space, role: str) -> None:
    with pods_coming_and_going(platform, team), platform.paused(role):
        time.sleep(STOPPED_S[role])  # the stop's length is what is given, not a wait for something


def test_an_api_server_that_is_killed_loses_nothing(
    plane: control_plane.ControlPlane, platform: Platform, team: Space
) -> None:
    with pods_coming_and_going(platform, team):
        for _ in range(2):
            with plane.without_apiserver():
                time.sleep(2)
            eventually("pods are created again", lambda: platform.ready("webhook"))
    for role in platform.roles():
        assert platform.alive(role), role


def test_a_redis_that_forgets_loses_no_pod(platform: Platform, team: Space, redis_url: str) -> None:
    with pods_coming_and_going(platform, team), redis.Redis.from_url(redis_url) as client:
        client.flushall()
