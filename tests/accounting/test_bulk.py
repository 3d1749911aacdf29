"""Rows written in bulk are those that the models would have written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import DataError
from django.db import transaction as db

from accounting import bulk, guard, ledger
from accounting.models import Journal, Node, Pod

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]

AT = datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)
COLUMNS = ("cluster_id", "uid", "namespace", "state", "request", "wire", "created_at", "gated", "lease_until")
ODD = "tab\t back\\slash \\N line\nquote' \"é漢 %s {}"


def pods() -> list[tuple[Any, ...]]:
    cluster = ledger.cluster_id()
    return [
        (cluster, "a", "nlp", "running", {"text": ODD, "list": [1, None]}, {}, AT, True, None),
        (cluster, ODD[:60], "nlp", "claimed", {}, {"k": ODD}, None, False, AT),
    ]


def rows() -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k != "id"} for row in Pod.objects.order_by("uid").values()]


def test_the_same_rows_as_by_the_model_with_its_defaults() -> None:
    with ledger.transaction(cause="test"):
        for values in pods():
            Pod(**dict(zip(COLUMNS, values, strict=True))).save()
        singly = rows()
        Pod.objects.all().delete()
        bulk.insert(Pod, COLUMNS, pods())
    assert rows() == singly
    assert Pod.objects.filter(request__text=ODD).exists()


def test_nothing_is_written_outside_a_ledger_transaction() -> None:
    with pytest.raises(guard.LedgerWriteRefused):
        bulk.insert(Pod, COLUMNS, pods())


def test_no_rows_are_no_fault() -> None:
    with ledger.transaction(cause="test"):
        bulk.insert(Pod, COLUMNS, [])
    assert rows() == []


@pytest.mark.only("postgresql")
def test_what_postgresql_refuses_is_a_data_error() -> None:
    for text in ("x" * 300, "nul \0"):
        with pytest.raises(DataError), db.atomic(), ledger.transaction(cause="test"):
            bulk.insert(Node, ("cluster_id", "name"), [(ledger.cluster_id(), text)])


def test_a_long_revision_is_journaled_in_order() -> None:
    with ledger.transaction(cause="test") as entry:
        for number in range(200):
            entry.record("pod", number, number=number)
    found = Journal.objects.filter(cause="test").order_by("seq")
    assert list(found.values_list("key", "values")) == [(str(n), {"number": n}) for n in range(200)]
    assert set(found.values_list("revision", "tag").distinct()) == {(entry.revision, entry.rows[0].tag)}


@pytest.mark.parametrize("keys", [[], ["n1"], ["n1", "n2", ODD], [f"n{number}" for number in range(5000)]])
def test_among_finds_what_in_finds(keys: list[str]) -> None:
    with ledger.transaction(cause="test"):
        bulk.insert(Node, ("cluster_id", "name"), [(ledger.cluster_id(), name) for name in ("n1", "n2", "n3", ODD)])
    among = set(Node.objects.filter(name__among=keys).values_list("name", flat=True))
    assert among == {name for name in ("n1", "n2", "n3", ODD) if name in keys}
    ids = list(Node.objects.filter(name__in=keys[:10]).values_list("pk", flat=True))
    assert set(Node.objects.filter(pk__among=ids).values_list("pk", flat=True)) == set(ids)
