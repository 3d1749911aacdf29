"""Replica ids: made, taken apart, and preferred."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin import replicas

UUID = "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"


def test_a_card_is_advertised_once_for_each_slot() -> None:
    assert replicas.replica_ids(UUID, 10) == tuple(f"{UUID}-{n}" for n in range(10))


@pytest.mark.parametrize(
    "replica, card",
    [
        (f"{UUID}-3", UUID),
        ("GPU-x::2", "GPU-x"),
        (UUID, UUID),
        (f"{UUID}-x3", f"{UUID}-x3"),
    ],
)
def test_physical_card_of_a_replica(replica: str, card: str) -> None:
    assert replicas.physical(replica) == card


@given(st.text("GPUabc0123-", min_size=1), st.integers(1, 20))
def test_replicas_of_any_known_card_lead_back_to_it(uuid: str, slots: int) -> None:
    assert {replicas.physical(replica, {uuid}) for replica in replicas.replica_ids(uuid, slots)} == {uuid}


def test_what_must_be_included_comes_first_and_counts() -> None:
    chosen = replicas.preferred(["U1", "U2"], ["U1-0", "U2-0", "U2-1"], must=["U2-1"], size=2, cards={"U1", "U2"})
    assert chosen == ("U2-1", "U1-0")


def test_the_lowest_number_is_taken_and_ten_comes_after_two() -> None:
    assert replicas.preferred(["U1"], ["U1-10", "U1-2"], must=[], size=1, cards={"U1"}) == ("U1-2",)


def test_nothing_is_preferred_when_the_wanted_cards_do_not_suffice() -> None:
    assert replicas.preferred(["U1"], ["U2-0"], must=[], size=1, cards={"U1", "U2"}) == ()


@given(
    wanted=st.lists(st.sampled_from(["U1", "U2", "U3"]), max_size=4),
    available=st.sets(st.tuples(st.sampled_from(["U1", "U2", "U3"]), st.integers(0, 3)), max_size=12),
    size=st.integers(1, 4),
)
def test_a_preference_is_of_the_asked_size_and_available(
    wanted: list[str], available: set[tuple[str, int]], size: int
) -> None:
    ids = {f"{uuid}-{n}" for uuid, n in available}
    chosen = replicas.preferred(wanted, ids, must=[], size=size, cards={"U1", "U2", "U3"})
    assert len(chosen) in (0, size)
    assert set(chosen) <= ids
    assert len(set(chosen)) == len(chosen)
