"""Locks, weights, MIG reservations, pair scores and handshakes: golden vectors and edges."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hami_platform.domain import devices, errors, requests
from hami_platform.domain.wire import handshake, mig_allocations, node_lock, pair_scores, weights
from tests.domain import golden


def cases(kind: str) -> Any:
    found = golden.steps("codec-other", op="codec", kind=kind)
    return pytest.mark.parametrize("step, expected", [case[1:] for case in found], ids=[case[0] for case in found])


@cases("lock")
def test_golden_locks(step: dict[str, Any], expected: dict[str, Any]) -> None:
    if expected.get("error"):
        with pytest.raises(errors.WireError):
            node_lock.decode(step["in"])
        return
    wanted = node_lock.NodeLock(expected["unix"], expected["namespace"], expected["name"])
    assert node_lock.decode(step["in"]) == wanted


def test_a_lock_is_written_in_utc() -> None:
    assert (
        node_lock.encode(node_lock.NodeLock(1787299200, "default", "gpu-pod")) == "2026-08-21T08:00:00Z,default,gpu-pod"
    )
    assert node_lock.encode(node_lock.NodeLock(1704859617)) == "2024-01-10T04:06:57Z"


@pytest.mark.parametrize("text", ["garbage", "", "2024-13-10T04:06:57Z", "2024-01-10 04:06:57", "20240110T040657Z,a,b"])
def test_other_texts_are_no_locks(text: str) -> None:
    with pytest.raises(errors.WireError):
        node_lock.decode(text)


@pytest.mark.parametrize("lock", [node_lock.NodeLock(10**15), node_lock.NodeLock(0, "a,b", "c")])
def test_a_lock_that_would_not_come_back_is_not_written(lock: node_lock.NodeLock) -> None:
    with pytest.raises(errors.WireError):
        node_lock.encode(lock)


def test_a_lock_belongs_to_whole_names_only() -> None:
    lock = node_lock.NodeLock(0, "ns", "abc-123")
    assert lock.owned_by("ns", "abc-123")
    assert not lock.owned_by("ns", "abc")
    assert not lock.owned_by("s", "abc-123")
    assert not node_lock.NodeLock(0).owned_by("", "")


@cases("weights")
def test_golden_weights(step: dict[str, Any], expected: dict[str, Any]) -> None:
    if expected.get("error"):
        with pytest.raises(errors.WireError):
            weights.decode(step["in"])
        return
    assert weights.decode(step["in"]) == requests.Weights(*expected["weights"])


@pytest.mark.parametrize(
    "text", ["", "slot=0,core=0,memory=0", "slot=-1,core=1,memory=1", "slot=9223372036854775808,core=1,memory=1"]
)
def test_other_texts_are_no_weights(text: str) -> None:
    with pytest.raises(errors.WireError):
        weights.decode(text)


def test_blanks_around_weights_do_not_matter() -> None:
    assert weights.decode(" memory = 3, slot = 1, core = 0 ") == requests.Weights(slot=1, core=0, memory=3)


@cases("mig")
def test_golden_mig_reservations(step: dict[str, Any], expected: dict[str, Any]) -> None:
    if expected.get("error"):
        with pytest.raises(errors.WireError):
            mig_allocations.decode(step["in"])
        return
    found = mig_allocations.decode(step["in"])
    assert len(found) == len(expected["allocations"] or [])
    assert mig_allocations.encode(found) == (step["in"] if found else "[]")


def test_zero_is_a_runtime_id_and_absent_is_none() -> None:
    text = '[{"containerIndex":1,"deviceIndex":0,"gpuUUID":"GPU-a","profile":"2g.10gb","placement":{"start":2,"size":2}'
    bare, full = (
        mig_allocations.decode(text + "}]"),
        mig_allocations.decode(text + ',"migUUID":"MIG-a","gpuInstanceID":4,"computeInstanceID":0}]'),
    )
    assert bare[0].runtime is None
    assert full[0].runtime == mig_allocations.Runtime("MIG-a", 4, 0)
    assert full[0].use == devices.MigUse("2g.10gb", devices.MigPlacement(2, 2))


def test_pair_scores_read_both_directions_as_written() -> None:
    text = '[{"uuid":"GPU-0","score":{"GPU-1":50,"GPU-2":20}},{"uuid":"GPU-1","score":{"GPU-0":50}}]'
    scores = pair_scores.decode(text)
    assert scores == {("GPU-0", "GPU-1"): 50, ("GPU-0", "GPU-2"): 20, ("GPU-1", "GPU-0"): 50}
    assert pair_scores.encode(scores) == text


def test_a_pair_score_keeps_the_case_of_the_uuid_and_names_the_bad_one() -> None:
    with pytest.raises(errors.WireError, match="device 0: GPU-B"):
        pair_scores.decode('[{"UUID":"a","Score":{"GPU-B":"x"}}]')
    assert pair_scores.decode('[{"uuid":"a","score":null},{"uuid":"b"}]') == {}


NOW = datetime(2026, 8, 21, 8, 0, 0)  # noqa: DTZ001 - handshakes carry local time without zone


def stamp(age_s: int) -> str:
    return handshake.encode(NOW - timedelta(seconds=age_s))


@pytest.mark.parametrize(
    "text, allocatable, healthy, stamps",
    [
        (None, 0, True, True),
        ("", 0, True, True),
        ("Reported_2026-08-21 08:00:00", 0, True, True),
        ("Deleted_2026-01-01 00:00:00", 0, True, True),
        ("Requesting", 0, True, False),
        ("Requesting_yesterday", 0, True, False),
        (stamp(59), 0, True, False),
        (stamp(60), 1, True, False),
        (stamp(60), 0, False, False),
        (stamp(90), 10, True, False),
        (stamp(90), 0, False, False),
    ],
)
def test_h54_h55_only_an_old_request_without_allocatable_devices_is_unhealthy(
    text: str | None, allocatable: int, healthy: bool, stamps: bool
) -> None:
    assert handshake.judge(text, local_now=NOW, allocatable=allocatable) == handshake.Verdict(healthy, stamps)


def test_a_handshake_has_no_zone() -> None:
    assert stamp(0) == "Requesting_2026-08-21 08:00:00"
    with pytest.raises(errors.WireError):
        handshake.encode(datetime(2026, 8, 21, tzinfo=UTC))
