"""Which pod a call is for.

| waiting pods of the node             | call asks  | answer                |
|--------------------------------------|------------|-----------------------|
| none                                 | 1          | NoPodWaits            |
| one, next row has as many devices    | n          | that row              |
| one, next row has another number     | n          | DeviceNumberNotMatched|
| several, one of them fits the number | n          | that one's row        |
| several fit                          | n          | SeveralPodsWait       |
| any that cannot be read              | n          | AllocationUndecodable |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin import refusals, rows
from tests.deviceplugin.builders import GPU_A, GPU_B, NODE, pod, row, running, typed

RESOURCE = "nvidia.com/gpu"
ONE = row((GPU_A, 3000, 30))
TWO = row((GPU_A, 1000, 10), (GPU_B, 1000, 10))


def choose(
    *pods: dict[str, Any], counts: Sequence[int] = (1,), served: frozenset[str] = frozenset()
) -> tuple[rows.Row, ...] | refusals.Refusal:
    return rows.choose([typed(one) for one in pods], lambda _pod: served, RESOURCE, counts)


def places(found: tuple[rows.Row, ...] | refusals.Refusal) -> list[tuple[str, str, int]]:
    assert not isinstance(found, refusals.Refusal), found
    return [(one.pod.metadata.name, one.container.name, one.index) for one in found]


def reason(found: tuple[rows.Row, ...] | refusals.Refusal) -> refusals.Reason:
    assert isinstance(found, refusals.Refusal)
    return found.reason


def test_the_first_row_with_devices_is_next_and_init_containers_come_first() -> None:
    found = choose(pod(rows=";" + ONE, inits=["fetch"]))
    assert places(found) == [("train", "main", 1)]


def test_a_served_container_is_passed_over() -> None:
    two = pod(rows=ONE + ONE, containers=["one", "two"])
    assert places(choose(two, served=frozenset({"one"}))) == [("train", "two", 1)]


def test_only_the_last_row_says_that_it_is_the_last() -> None:
    (first,) = rows.choose(
        [typed(pod(rows=ONE + ONE, containers=["one", "two"]))], lambda _: frozenset(), RESOURCE, [1]
    )  # type: ignore[misc]
    assert not first.last
    (only,) = choose(pod())
    assert only.last  # type: ignore[union-attr]


def test_nobody_waits() -> None:
    assert reason(choose()) is refusals.Reason.NO_POD
    assert reason(choose(pod(), served=frozenset({"main"}))) is refusals.Reason.NO_POD


def test_another_number_of_devices_names_pod_container_and_both_numbers() -> None:
    refusal = choose(pod(rows=TWO), counts=[1])
    assert reason(refusal) is refusals.Reason.COUNT_MISMATCH
    assert isinstance(refusal, refusals.Refusal)
    assert refusal.message == (
        "device number not matched: pod nlp/train, container main: kubelet asks for 1 devices, reserved are 2"
    )
    assert refusal.pod is not None


def test_pods_are_told_apart_by_how_many_devices_come_next() -> None:
    assert places(choose(pod("a", ONE), pod("b", TWO), counts=[2])) == [("b", "main", 0)]


def test_two_pods_that_both_fit_get_nothing() -> None:
    refusal = choose(pod("b"), pod("a"))
    assert reason(refusal) is refusals.Reason.AMBIGUOUS
    assert isinstance(refusal, refusals.Refusal)
    assert "nlp/a, nlp/b" in refusal.message
    assert refusal.pod is None


def test_h43_an_undecodable_pod_is_named_with_its_slot_and_nobody_is_served() -> None:
    refusal = choose(pod("good"), pod("bad", f"{GPU_A},NVIDIA,1000:;"))
    assert reason(refusal) is refusals.Reason.UNDECODABLE
    assert isinstance(refusal, refusals.Refusal)
    assert "nlp/bad" in refusal.message
    assert "slot 0" in refusal.message


def test_rows_beyond_the_containers_are_unreadable_unless_empty() -> None:
    assert places(choose(pod(rows=ONE + ";;"))) == [("train", "main", 0)]
    assert reason(choose(pod(rows=ONE + ONE))) is refusals.Reason.UNDECODABLE


def test_rows_that_hami_dropped_belong_to_the_containers_that_ask() -> None:
    value = pod(rows=ONE, containers=["plain", "gpu"])
    del value["spec"]["containers"][0]["resources"]
    (found,) = choose(value)
    assert (found.container.name, found.index, found.slot) == ("gpu", 1, 0)  # type: ignore[union-attr]


def test_rows_too_few_for_those_who_ask_are_unreadable() -> None:
    assert reason(choose(pod(rows=ONE, containers=["one", "two"]))) is refusals.Reason.UNDECODABLE


@pytest.mark.parametrize(
    "changes, waits",
    [
        ({}, True),
        ({"status": running()}, False),
        ({"status": {"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}]}}, False),
        ({"status": {"containerStatuses": [{"name": "main", "restartCount": 1, "state": {"waiting": {}}}]}}, False),
        ({"status": {"containerStatuses": [{"name": "main", "state": {"waiting": {}}}]}}, True),
        ({"status": {"phase": "Failed"}}, False),
        ({"status": {"phase": "Succeeded"}}, False),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False),
        ({"annotations": {"hami.io/bind-phase": "success"}}, False),
        ({"annotations": {"hami.io/vgpu-node": "n2"}}, False),
        ({"rows": None}, False),
    ],
)
def test_who_waits(changes: dict[str, Any], waits: bool) -> None:
    assert rows.waiting(typed(pod(**changes)), NODE) is waits


def test_h40_two_init_containers_without_devices_and_an_app_with_two() -> None:
    value = pod(rows=f";;{GPU_A},NVIDIA,3000,30:{GPU_B},NVIDIA,3000,30:;", inits=["a", "b"])
    assert places(choose(value, counts=[2])) == [("train", "main", 2)]


@pytest.mark.parametrize(
    "changes, meant",
    [
        ({}, True),
        ({"asks": 2}, False),
        ({"status": {"conditions": [{"type": "Initialized", "status": "True"}]}}, False),
        ({"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}, True),
        ({"status": running()}, False),
        ({"status": {"phase": "Failed"}}, False),
    ],
)
def test_a_pod_that_the_platform_did_not_place_may_be_the_one_that_calls(changes: dict[str, Any], meant: bool) -> None:
    found = rows.stranger([typed(pod(rows=None, **changes))], RESOURCE, [1])
    assert (found is not None) is meant


@given(
    sizes=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3), min_size=1, max_size=4),
    done=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    count=st.integers(1, 2),
)
def test_a_row_is_given_only_when_no_other_pod_could_be_meant(
    sizes: list[list[int]], done: list[int], count: int
) -> None:
    """Oracle: of each pod the first unserved row with devices; the answer must be the only one of that size."""
    pods = [
        pod(
            f"p{n}",
            "".join(row(*[(GPU_A, 1, 1)] * size) for size in each),
            containers=[f"c{i}" for i in range(len(each))],
        )
        for n, each in enumerate(sizes)
    ]
    served = {f"uid-p{n}": frozenset(f"c{i}" for i in range(done[n])) for n in range(len(sizes))}
    next_sizes = [[s for i, s in enumerate(each) if s and i >= done[n]][:1] for n, each in enumerate(sizes)]
    able = [n for n, sizes_left in enumerate(next_sizes) if sizes_left == [count]]
    found = rows.choose([typed(one) for one in pods], lambda p: served[p.metadata.uid], RESOURCE, [count])
    if len(able) == 1:
        assert places(found)[0][0] == f"p{able[0]}"
    else:
        assert isinstance(found, refusals.Refusal)
