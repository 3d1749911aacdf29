"""kill -9 of every process in the middle of a stream of pods: after the restart the ledger is what the cluster is."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from tests.cluster import kube, nodes
from tests.cluster.kube import eventually
from tests.cluster.platform import Platform
from tests.cluster.space import Space

PODS = 200
KILLED = ("extender", "webhook", "watcher", "worker")


def _stream(team: Space, done: threading.Event) -> list[str]:
    """Create the pods from a few threads, as controllers would: small shares that run a second or stay."""
    choices = random.Random(7)
    plans = [(f"s-{number:03d}", choices.choice(["1s", "2s", ""])) for number in range(PODS)]

    def create(plan: tuple[str, str]) -> None:
        name, run_for = plan
        notes = {"e2e/run-for": run_for} if run_for else {}
        team.create_insisting(
            nodes.pod(name, nodes.container(gpu=1, gpumem=4096, gpucores=5), annotations=notes), within_s=90
        )

    try:
        kube.at_once(create, plans, threads=4)
    finally:
        done.set()
    return [name for name, _ in plans]


@pytest.mark.timeout(600)
def test_killing_every_process_loses_nothing(platform: Platform, team: Space) -> None:
    done = threading.Event()
    names: list[str] = []
    stream = threading.Thread(target=lambda: names.extend(_stream(team, done)), daemon=True)
    stream.start()
    for number, role in enumerate(KILLED, start=1):
        some = number * PODS // 8
        eventually(f"{some} pods exist", lambda some=some: done.is_set() or len(team.pods()) >= some, within_s=120)
        platform.kill_role(role)
        platform.start_role(role)
    for role in KILLED:
        platform.await_role(role)
    stream.join(300)
    assert len(names) == PODS, "a pod could not be created"

    eventually("every pod runs or has ended", lambda: all(_settled(pod) for pod in team.pods()), within_s=180)
    eventually("the ledger agrees with the cluster", lambda: _selfcheck(platform), within_s=60)
    shown = _shown_on_running_pods(team)
    assert shown == _held(platform)
    assert [
        card for card in shown.values() if card["memory_mib"] > nodes.MEMORY_MIB or card["core_percent"] > 100
    ] == []


def _settled(pod: dict[str, Any]) -> bool:
    """Whether it is where it stays: one that still ran for a second would end between the two counts."""
    ends = "e2e/run-for" in pod["metadata"]["annotations"]
    phase: str = pod["status"].get("phase", "")
    return phase == ("Succeeded" if ends else "Running")


def _selfcheck(platform: Platform) -> bool:
    return platform.manage("selfcheck", check=False).returncode == 0


def _shown_on_running_pods(team: Space) -> dict[str, dict[str, int]]:
    """What each card gives by the annotations of live pods, counted without the ledger."""
    cards: dict[str, dict[str, int]] = {}
    for pod in team.pods():
        if pod["status"].get("phase") == "Running":
            for share in team.ledger.decoded(pod["metadata"]["annotations"]):
                card = cards.setdefault(share["uuid"], {"memory_mib": 0, "core_percent": 0})
                for amount in card:
                    card[amount] += share[amount]
    return cards


def _held(platform: Platform) -> dict[str, dict[str, int]]:
    """The same by the ledger."""
    cards = {uuid: dict(use) for uuid, use in platform.ledger.devices().items() if use["slots"]}
    return {uuid: {"memory_mib": use["memory_mib"], "core_percent": use["core_percent"]} for uuid, use in cards.items()}
