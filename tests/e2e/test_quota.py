"""Namespace quota at the API server: denied in enforce mode, gated and released in wait mode."""

from __future__ import annotations

import pytest

from tests.cluster import kube, nodes
from tests.cluster.kube import eventually
from tests.cluster.space import Space

GATE = {"name": "platform.hami.io/quota"}
LIMIT_MIB = 20480


def _ask(name: str) -> dict[str, object]:
    return nodes.pod(name, nodes.container(gpu=1, gpumem=10240, gpucores=30))


def _filled(team: Space, mode: str) -> None:
    team.ledger.quota_set(team.name, mode=mode, memory_mib=LIMIT_MIB)
    for name in ("one", "two"):
        team.create(_ask(name))
        team.await_phase(name, "Running")


def test_pod_over_quota_is_denied_with_the_numbers(team: Space) -> None:
    _filled(team, "enforce")
    with pytest.raises(kube.ApiError) as denied:
        team.create(_ask("three"))
    message = denied.value.message
    # Asked 10240, nothing free of 20480: each figure stands in the sentence that people read.
    assert "10240" in message
    assert "20480" in message
    assert team.name in message
    assert "denied the request" in message


def test_dry_run_claims_nothing(team: Space) -> None:
    team.ledger.quota_set(team.name, mode="enforce", memory_mib=LIMIT_MIB)
    for number in range(5):
        team.api.create(kube.pods_of(team.name), _ask(f"dry-{number}"), dry_run=True)
    assert team.ledger.used_mib(team.name) == 0


def test_denied_pod_fits_after_another_ended(team: Space) -> None:
    _filled(team, "enforce")
    team.delete("one")
    eventually("half the quota is free", lambda: team.ledger.used_mib(team.name) == 10240, within_s=10)
    team.create(_ask("three"))
    team.await_phase("three", "Running")


def test_waiting_pod_is_released_within_five_seconds_of_a_raise(team: Space) -> None:
    _filled(team, "wait")
    team.create(_ask("three"))
    assert team.pod("three")["spec"]["schedulingGates"] == [GATE]
    assert team.ledger.used_mib(team.name) == LIMIT_MIB
    team.ledger.quota_set(team.name, memory_mib=LIMIT_MIB + 10240)
    team.await_bound("three", within_s=5)
    assert not team.pod("three")["spec"].get("schedulingGates")


def test_zero_refuses_and_no_limit_never_does(team: Space) -> None:
    team.ledger.quota_set(team.name, mode="enforce", memory_mib=None, devices=0)
    with pytest.raises(kube.ApiError, match="denied the request"):
        team.create(_ask("none"))
    team.ledger.quota_set(team.name, memory_mib=None, devices=None)
    team.create(_ask("any"))
    team.await_bound("any")
