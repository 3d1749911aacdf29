"""Limits on the command line."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from accounting.models import Quota
from accounting.services import namespaces, tenants
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]


@pytest.fixture(autouse=True)
def cluster() -> None:
    flow.cluster(kube_objects.node("n1"))


def said(*arguments: str) -> str:
    text = StringIO()
    call_command("quota", *arguments, stdout=text)
    return text.getvalue()


def plain(*arguments: str) -> Any:
    return json.loads(said(*arguments, "--json"))


def test_setting_changes_what_is_named_and_keeps_the_rest() -> None:
    said("set", "nlp", "devices=4", "memory_mib=8000", "--reason", "first")
    said("set", "nlp", "memory_mib=9000", "--reason", "more")
    said("set", "nlp", "devices=none", "--reason", "no longer")
    row = Quota.objects.get(namespace__name="nlp")
    assert (row.devices, row.memory_mib, row.version, row.reason) == (None, 9000, 3, "no longer")


def test_the_list_has_what_is_used_of_each_limit() -> None:
    said("set", "nlp", "memory_mib=8000", "--reason", "test")
    flow.run(kube_objects.pod("p", mem=3000))
    (bar,) = plain("list")
    assert (bar["rule"], bar["resource"], bar["used"], bar["limit"], bar["free"]) == (
        "nlp/default", "memory_mib", 3000, 8000, 5000,
    )  # fmt: skip
    assert "3000" in said("list")


def test_a_limit_that_is_exceeded_is_the_exit_code() -> None:
    flow.run(kube_objects.pod("p", mem=3000))
    with pytest.raises(SystemExit) as ended:
        said("set", "nlp", "memory_mib=1000", "--reason", "test")
    assert ended.value.code == 1
    with pytest.raises(SystemExit):
        said("list", "--over")


def test_a_namespace_shows_the_limits_of_its_tenants_too() -> None:
    tenants.tenant_save(name="labs", reason="test")
    said("set", "tenant:labs", "devices=2", "--reason", "test")
    said("set", "nlp", "devices=1", "--reason", "test")
    namespaces.namespace_save(name="nlp", tenant="labs", reason="test")
    assert {bar["scope"] for bar in plain("show", "nlp")} == {"labs", "nlp"}


@pytest.mark.parametrize(
    "arguments, text",
    [
        (("set", "nlp", "memory_mib=16Gi", "--reason", "x"), "memory_mib: '16Gi' is no whole number"),
        (("set", "nlp", "memory_mib=17179869184", "--reason", "x"), "MiB, not bytes"),
        (("set", "nlp", "memroy=1", "--reason", "x"), "limits: memroy=1"),
        (("set", "nlp", "devices=1", "--reason", " "), "reason"),
        (("set", "nlp", "devices=1", "--reason", "x", "--until", "2030-01-01"), "until: say the time zone"),
        (("set", "tenant:nobody", "devices=1", "--reason", "x"), "tenant"),
        (("show", "nobody"), "namespace"),
    ],
)
def test_bad_input_names_the_field_and_writes_nothing(arguments: tuple[str, ...], text: str) -> None:
    with pytest.raises(CommandError, match=text) as fault:
        said(*arguments)
    assert fault.value.returncode == 2
    assert not Quota.objects.exists()
