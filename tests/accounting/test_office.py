"""Leadership: who is in office, how it ends, and what does not depend on it.

HAMi watches kube-scheduler's Lease and takes itself for the leader where the holder's name begins with its own host
name; `/filter` waits for that. Here the watcher alone has an office, by a lease in the database; everybody serves.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F

from accounting import ledger, watcher
from accounting.models import ProcessLease
from accounting.services import office
from hami_platform import env_flags
from tests.accounting import flow, kube_objects


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_no_two_processes_have_one_identity_and_none_is_the_beginning_of_another() -> None:
    names = {office.identity() for _ in range(50)}
    assert len(names) == 50
    assert not any(one != other and other.startswith(one) for one in names for other in names)
    assert max(map(len, names)) <= (ProcessLease._meta.get_field("holder").max_length or 0)


def test_an_office_ends_by_the_process_own_clock_without_anybody_saying_so() -> None:
    clock = Hand()
    mine = office.Office(clock)
    asked_s = mine.now_s()
    clock.now_s += 3  # the database took its time, and counts from later
    mine.held(4, asked_s=asked_s, ttl_s=15)
    clock.now_s += 11.9
    assert mine.epoch == 4
    clock.now_s += 0.2
    assert mine.epoch is None


def test_who_was_told_that_another_is_in_office_is_not() -> None:
    mine = office.Office(Hand())
    mine.held(4, asked_s=mine.now_s(), ttl_s=15)
    mine.held(None, asked_s=mine.now_s(), ttl_s=15)
    assert mine.epoch is None


@pytest.fixture
def offices(monkeypatch: pytest.MonkeyPatch) -> office.Office:
    """This process's own, new."""
    mine = office.Office()
    monkeypatch.setattr(office, "OFFICE", mine)
    return mine


@pytest.mark.django_db
@pytest.mark.ledger
def test_an_office_that_ran_out_goes_to_the_next_with_a_new_epoch(offices: office.Office) -> None:
    first = watcher.take_office("host-1")
    assert first is not None
    assert offices.epoch in (first,)
    assert watcher.take_office("host-10") is None  # a longer name is another process
    assert watcher.take_office("host-1") == first
    ProcessLease.objects.filter(name=ledger.WATCHER).update(until=F("until") - timedelta(seconds=watcher.LEASE_S))
    assert watcher.take_office("host-10") == first + 1
    assert watcher.take_office("host-1") is None
    assert not offices.epoch
    with pytest.raises(ledger.Fenced), ledger.transaction(cause="late", fence=first):
        pass


@pytest.mark.django_db
@pytest.mark.ledger
def test_pods_are_admitted_and_placed_whoever_is_in_office_or_nobody(offices: office.Office) -> None:
    flow.cluster()
    flow.run(kube_objects.pod("nobody", mem=1000))
    watcher.take_office("elsewhere")
    flow.run(kube_objects.pod("another", mem=1000))
    ProcessLease.objects.filter(name=ledger.WATCHER).update(until=F("until") - timedelta(seconds=60))
    flow.run(kube_objects.pod("lapsed", mem=1000))
    assert flow.used_mib() == 3000


def test_hamis_flags_of_leader_election_are_taken_and_explained() -> None:
    flags = ("leader-elect", "leader-elect-resource-name", "leader-elect-resource-namespace")
    given = ["--leader-elect=true", "--leader-elect-resource-name=hami", "--leader-elect-resource-namespace", "kube"]
    assert env_flags.variables_of(given) == ({}, flags)
    assert "replicas serve" in env_flags.ACCEPTED_FLAGS["leader-elect"]
