"""How many statements a page takes, however much there is to show. More is a decision: change the figure with the code
that needs it. None may take 20."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounting import ledger, models
from accounting.services import budgets, rollups
from hami_platform import env
from tests.accounting import rows
from tests.accounting.test_pages_console import busy

pytestmark = pytest.mark.django_db

MOST = 20
COUNTS = {
    "cluster": 13,
    "nodes": 8,
    "node": 15,
    "devices": 9,
    "device": 18,
    "pending": 9,
    "pods": 10,
    "pod": 15,
    "quotas": 7,
    "budgets": 13,
    "budget": 15,
    "namespace": 19,
    "tenant": 18,
    "usage": 11,
    "fragmentation": 7,
    "idle": 10,
    "findings": 9,
    "health": 14,
    "settings": 9,
    "connect": 6,
    "activity": 8,
    "simulate": 4,
}
ARGUMENTS = {"node": "n1", "device": "GPU-n1-0", "namespace": "nlp", "tenant": "labs", "pod": "uid-train"}


@pytest.mark.parametrize("page", COUNTS)
def test_a_page_takes_as_many_statements_as_is_written_here(client: Client, page: str) -> None:
    client.force_login(models.User.objects.create_superuser("root"))
    busy()
    for n in range(2, 6):
        rows.node(f"n{n}", count=4)
        rows.pod(f"more{n}", node=f"n{n}", shares=[rows.Given(f"GPU-n{n}-{m}") for m in range(4)])
    for scope in ({"namespace": "nlp"}, {"tenant": "labs"}):
        plan = budgets.Plan(device_hours=100, amount=Decimal(100), currency="EUR")
        budgets.budget_set(**scope, plan=plan, reason="test")  # type: ignore[arg-type]
    rollups.hours_rollup()
    ledger._clusters[env.current().cluster] = ledger.cluster_id()  # a test's transaction does not keep it
    arguments = ARGUMENTS | {"budget": models.Budget.objects.get(tenant__name="labs").pk}
    address = reverse(f"console:{page}", args=[arguments[page]] if page in arguments else [])
    assert client.get(address).status_code == 200
    with CaptureQueriesContext(connection) as caught:
        client.get(address)
    sent = [one["sql"] for one in caught.captured_queries]
    assert len(sent) == COUNTS[page] < MOST, "\n".join(sent)
