"""What agents report of their kubelets becomes findings, and ends with the report that leaves it out."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from accounting.models import Clock, Finding
from accounting.services import kubelet_books
from hami_platform import env
from tests.accounting import rows

pytestmark = pytest.mark.django_db


def difference(name: str = "train", **changes: str) -> dict[str, str]:
    usual = {"namespace": "nlp", "pod": name, "container": "main", "kind": "other-ids", "message": "it holds GPU-b-0"}
    return usual | changes


def report(*found: dict[str, str], node: str = "n1", token: str = "t") -> int:
    body: dict[str, Any] = {"node": node, "differences": list(found)}
    headers = {"Authorization": f"Bearer {token}"}
    with env.override(internal_token="t"):
        status: int = (
            Client().post("/api/agent/findings", body, content_type="application/json", headers=headers).status_code
        )
    return status


def open_() -> list[str]:
    return sorted(Finding.objects.filter(repaired_at=None).values_list("subject", flat=True))


def test_each_difference_is_one_finding_until_a_report_leaves_it_out() -> None:
    rows.node()
    for _ in range(2):
        assert report(difference("a"), difference("b")) == 204
    assert open_() == ["n1: nlp/a main", "n1: nlp/b main"]
    assert report(difference("b", message="it holds GPU-c-0")) == 204
    assert open_() == ["n1: nlp/b main"]
    assert Finding.objects.get(repaired_at=None).message == "it holds GPU-c-0"
    assert report() == 204
    assert open_() == []
    assert Finding.objects.count() == 2


def test_a_node_speaks_of_itself_alone() -> None:
    for name in ("n1", "n11"):
        rows.node(name)
        report(difference(name), node=name)
    report(node="n1")
    assert open_() == ["n11: nlp/n11 main"]


def test_a_node_that_nobody_knows_an_unknown_kind_and_a_stranger_are_refused() -> None:
    rows.node()
    assert report(node="n9") == 404
    assert report(difference(kind="whatever")) == 400
    assert report(token="x") == 401
    assert open_() == []


def test_a_report_without_news_takes_no_turn_on_the_ledger() -> None:
    rows.node()
    before = Clock.objects.get().revision
    assert kubelet_books.differences_set(node="n1", found=[])
    assert Clock.objects.get().revision == before


def test_a_node_has_no_more_findings_than_people_read() -> None:
    rows.node()
    assert report(*(difference(f"p{number}") for number in range(kubelet_books.MOST + 5))) == 204
    assert len(open_()) == kubelet_books.MOST
