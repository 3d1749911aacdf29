"""Statements that are not made by the ORM at each use, compared with what the ORM does; writes gathered into one
message."""

from __future__ import annotations

import contextlib

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounting import guard, ledger, loading, statements
from accounting.models import Journal, Pod, PodState
from accounting.services import pod_rows
from hami_platform.domain import devices
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]

COLUMNS = tuple(one.attname for one in Pod._meta.concrete_fields)


def pods(*uids: str) -> None:
    for uid in uids:
        flow.run(kube_objects.pod(uid, mem=100))


@pytest.fixture(autouse=True)
def cluster() -> None:
    flow.cluster()


def test_a_compiled_query_gives_what_the_orm_gives() -> None:
    pods("a", "b")
    query = statements.Query(
        lambda cluster, *uids: Pod.objects.filter(cluster=cluster, uid__in=uids).order_by("pk").values_list(*COLUMNS)
    )
    for uids in (("uid-a",), ("uid-a", "uid-b"), ("uid-b", "nobody"), ("uid-b",)):
        asked = Pod.objects.filter(uid__in=uids).order_by("pk")
        assert query.rows(ledger.cluster_id(), *uids) == list(asked.values_list(*COLUMNS))


def test_a_value_that_does_not_reach_the_sql_as_it_is_is_refused() -> None:
    query = statements.Query(lambda uid: Pod.objects.filter(uid__startswith=uid).values_list("uid"))
    with pytest.raises(TypeError):
        query.rows("a")


def test_few_changed_pods_are_read_like_many(monkeypatch: pytest.MonkeyPatch) -> None:
    pods("a", "b", "c")
    keys = {"pod": {str(pk) for pk in Pod.objects.values_list("pk", flat=True)} | {"999999"}}
    clock = loading.clock_row(ledger.cluster_id())
    few = loading.changed(ledger.cluster_id(), keys, clock)
    monkeypatch.setattr(loading, "FEW", 0)
    assert few == loading.changed(ledger.cluster_id(), keys, clock)
    assert few.pods[999999] is None


def test_nothing_is_written_outside_a_ledger_transaction() -> None:
    row = Pod(cluster_id=ledger.cluster_id(), namespace="x", name="x")
    for write in (lambda: statements.insert(row), lambda: statements.updating(row, ["name"])):
        with pytest.raises(guard.LedgerWriteRefused):
            write()


def test_a_gathering_block_writes_at_its_end_and_by_one_message_where_there_are_such() -> None:
    pods("a")
    row = Pod.objects.get(uid="uid-a")
    with CaptureQueriesContext(connection) as caught, ledger.transaction(cause="test", gather=True) as entry:
        pod_rows.pod_move(entry, row, row.state, owner="first")
        pod_rows.pod_move(entry, row, row.state, owner="second", priority=7)
        assert Pod.objects.get(pk=row.pk).owner == ""
    found = Pod.objects.get(pk=row.pk)
    assert (found.owner, found.priority) == ("second", 7)
    assert Journal.objects.filter(revision=entry.revision).count() == 2
    assert len([one for one in caught.captured_queries if "UPDATE" in one["sql"] and "_pod" in one["sql"]]) == 1


def test_what_is_gathered_without_a_journal_row_is_written_too() -> None:
    pods("a")
    row = Pod.objects.get(uid="uid-a")
    row.owner = "changed"
    with ledger.transaction(cause="test", gather=True) as entry:
        entry.save(row, ["owner"])
    assert Pod.objects.get(pk=row.pk).owner == "changed"


def test_a_block_inside_a_gathering_one_falls_alone() -> None:
    pods("a", "b")
    one, other = Pod.objects.order_by("uid")
    with ledger.transaction(cause="test", gather=True) as entry:
        pod_rows.pod_move(entry, one, one.state, owner="kept")
        with contextlib.suppress(ZeroDivisionError), ledger.transaction(cause="inner") as inner:
            pod_rows.pod_move(inner, other, PodState.ENDED)
            raise ZeroDivisionError
    assert set(Pod.objects.values_list("uid", "owner", "state")) == {
        ("uid-a", "kept", "running"), ("uid-b", "", "running"),
    }  # fmt: skip


def test_shares_are_gathered_after_the_old_ones_are_gone() -> None:
    pods("a")
    row = Pod.objects.get(uid="uid-a")
    fresh = devices.Share(0, "main", devices.ContainerKind.APP, "NVIDIA", "GPU-n1", 7, 0)
    with ledger.transaction(cause="test", gather=True) as entry:
        pod_rows.shares_write(entry, row, [fresh])
        pod_rows.pod_move(entry, row, row.state)
    assert list(row.shares.values_list("memory_mib", flat=True)) == [7]
