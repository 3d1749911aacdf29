"""What people have decided, out into a file and back."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command

from accounting.models import Budget, Device, Journal, Namespace, Price, Quota, Role, Tenant, User
from accounting.services import (
    budgets,
    devices,
    errors,
    namespaces,
    people,
    portable,
    portable_document,
    prices,
    quotas,
    tenants,
)
from hami_platform.domain import quota as domain
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]

PRICE = {"vendor": "NVIDIA", "model_pattern": "*", "valid_from": "2026-01-01"}


@pytest.fixture(autouse=True)
def filled() -> None:
    """A little of everything."""
    flow.cluster(kube_objects.node("n1"))
    User.objects.create_user("vera")
    Group.objects.create(name="ops")
    why: dict[str, Any] = {"reason": "test"}
    tenants.tenant_save(name="labs", note="all of them", **why)
    tenants.tenant_save(name="ai", parent="labs", **why)
    namespaces.namespace_save(name="nlp", tenant="ai", mode="wait", **why)
    year = datetime(2030, 1, 1, tzinfo=UTC)
    quotas.quota_set(namespace="nlp", limits=domain.Limits(devices=4, memory_mib=40960), valid_until=year, **why)
    a100 = domain.Selector("NVIDIA", "*A100*")
    quotas.quota_set(tenant="labs", name="a100", limits=domain.Limits(devices=0), selector=a100, **why)
    plan = budgets.Plan(device_hours=100, amount=Decimal("99.5"), currency="EUR", period="quarter")
    budgets.budget_set(tenant="labs", plan=plan, selector=a100, **why)
    days = {"period": "once", "first_day": date(2026, 5, 1), "last_day": date(2026, 5, 31)}
    budgets.budget_set(namespace="nlp", plan=budgets.Plan(device_hours=0, **days), **why)  # type: ignore[arg-type]
    dear = Decimal("1.25")
    prices.price_set(vendor="NVIDIA", model_pattern="*", device_hour=dear, valid_from=date(2026, 1, 1), **why)
    people.role_grant(role="operator", group="ops", **why)
    people.role_grant(role="viewer", user="vera", namespace="nlp", **why)
    devices.device_edit(node="n1", vendor="NVIDIA", uuid="GPU-n1", cordoned=True, reserved_mib=512, note="warm", **why)


def exported(tmp_path: Path) -> Path:
    text = StringIO()
    call_command("export", stdout=text)
    path = tmp_path / "state.yaml"
    path.write_text(text.getvalue())
    return path


def applied(path: Path, *options: str) -> str:
    text = StringIO()
    call_command("apply", str(path), "--reason", "from the repository", *options, stdout=text)
    return text.getvalue()


def counts() -> list[int]:
    return [model.objects.count() for model in (Tenant, Namespace, Quota, Budget, Price, Role)]


def emptied() -> None:
    """As on a new installation that knows the same nodes and accounts."""
    portable.apply(portable_document.Document(namespaces=()), reason="test", prune=True)
    assert counts()[2:] == [0, 0, 0, 0]


def test_what_was_exported_can_be_put_back_and_is_the_same(tmp_path: Path) -> None:
    path, before = exported(tmp_path), portable.document()
    assert "nothing to change" in applied(path)
    emptied()
    applied(path)
    assert portable.document() == before
    assert Quota.objects.get(name="a100").devices == 0
    assert Budget.objects.get(namespace__name="nlp").last_day == date(2026, 5, 31)
    assert Device.objects.get(uuid="GPU-n1").reserved_mib == 512


def test_applying_twice_writes_once(tmp_path: Path) -> None:
    path = exported(tmp_path)
    emptied()
    applied(path)
    written = Journal.objects.count()
    applied(path)
    assert Journal.objects.count() == written


def test_a_dry_run_says_what_would_change_and_changes_nothing(tmp_path: Path) -> None:
    path = exported(tmp_path)
    path.write_text(path.read_text().replace("memory_mib: 40960", "memory_mib: 50000"))
    before = portable.document()
    text = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("apply", str(path), "--dry-run", stdout=text)
    assert ended.value.code == 1
    assert "~ quotas nlp default  memory_mib: 40960 → 50000" in text.getvalue()
    assert portable.document() == before


def test_what_is_not_in_the_file_stays_unless_pruned(tmp_path: Path) -> None:
    path = exported(tmp_path)
    quotas.quota_set(namespace="nlp", name="extra", limits=domain.Limits(devices=9), reason="test")
    assert "nothing to change" in applied(path)
    assert "- quotas nlp extra" in applied(path, "--prune")
    assert not Quota.objects.filter(name="extra").exists()


def test_all_of_it_or_nothing() -> None:
    before = portable.document()
    wanted = portable.parse(
        {"quotas": [{"namespace": "nlp", "devices": 1}, {"namespace": "nlp", "name": "bad", "memory_mib": 16 * 2**30}]}
    )
    with pytest.raises(errors.InvalidInput, match=r"quotas\[1\].memory_mib: .*MiB, not bytes"):
        portable.apply(wanted, reason="test")
    assert portable.document() == before


@pytest.mark.parametrize(
    "data, said",
    [
        ({"quotas": [{"namespace": "nlp", "memroy_mib": 1}]}, "memroy_mib"),
        ({"quotas": [{"namespace": "nlp", "devices": "4"}]}, r"\$.quotas\[0\].devices"),
        ({"version": 2}, "version"),
        ({"tenants": [{"name": "a"}, {"name": "a"}]}, "tenants: more than once: a"),
        ({"budgets": [{"namespace": "nlp", "hours": 4}]}, "hours"),
        ({"prices": [PRICE | {"device_hour": "dear"}]}, "device_hour"),
        ([], "object"),
        (None, "object"),
        ("text", "object"),
    ],
)  # fmt: skip
def test_a_wrong_document_is_refused_with_its_place(data: Any, said: str) -> None:
    with pytest.raises(errors.InvalidInput, match=said):
        portable.parse(data)


def test_numbers_and_dates_as_people_write_them_in_yaml() -> None:
    text = "prices: [{vendor: NVIDIA, model_pattern: '*L4*', device_hour: 0.8, valid_from: 2026-03-01}]"
    (price,) = portable.parse(yaml.safe_load(text)).prices
    assert (price.device_hour, price.valid_from) == (Decimal("0.8"), date(2026, 3, 1))


def test_tenants_come_after_those_above_them() -> None:
    wanted = portable.parse({"tenants": [{"name": "leaf", "parent": "stem"}, {"name": "stem", "parent": "labs"}]})
    assert [one.subject for one in portable.apply(wanted, reason="test")] == ["stem", "leaf"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [")
    for name in ("bad.yaml", "missing.yaml"):
        with pytest.raises(CommandError) as fault:
            applied(tmp_path / name)
        assert fault.value.returncode == 2


def test_as_json() -> None:
    text = StringIO()
    call_command("export", "--json", stdout=text)
    assert portable.parse(json.loads(text.getvalue())) == portable.document()
