"""A walk over every registered admin: what can be changed there writes one Journal row and one history row, and the
folded View equals a loaded one; what cannot be changed is shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from accounting import ledger, live_view, models
from accounting.admin import console
from accounting.services import budgets, holds, namespaces, prices, quotas, tenants
from accounting.services.budgets import Plan
from hami_platform.domain.quota import Limits
from tests.accounting import rows

pytestmark = pytest.mark.django_db

WHY: dict[str, Any] = {"reason": "the walk", "actor": "root"}
Form = dict[str, Any]


@dataclass(frozen=True)
class Entries:
    """How one admin is used: what is entered to add and to change a row, and how a row to change or delete is made."""

    make: Callable[[], Model]
    add: Callable[[], Form] | None = None
    change: Callable[[], Form] | None = None
    deletes: bool = True
    kind: str = ""


def no_limits(**limits: Any) -> Form:
    names = (*models.Quota.LIMITS, "vendor", "model_pattern")
    return (
        dict.fromkeys(names, "") | {f"valid_{end}_{part}": "" for end in ("from", "until") for part in (0, 1)} | limits
    )


def device() -> models.Device:
    return models.Device.objects.filter(uuid="GPU-n1-0").first() or rows.node().devices.get(uuid="GPU-n1-0")


def hold() -> models.Hold:
    one = device()
    return holds.hold_add(node=one.node.name, vendor=one.vendor, uuid=one.uuid, amounts=holds.Amounts(100), **WHY)


def price() -> models.Price:
    day = ledger.database_time().date()
    return prices.price_set(vendor="NVIDIA", model_pattern="*A10*", device_hour=Decimal(1), valid_from=day, **WHY)


def role() -> models.Role:
    return models.Role.objects.create(user=models.User.objects.get(username="root"), role="viewer")


def root() -> int:
    return models.User.objects.get(username="root").pk


def price_form(**entered: Any) -> Form:
    return {
        "vendor": "NVIDIA",
        "model_pattern": "*",
        "device_hour": "2",
        "currency": "EUR",
        "valid_from": "2026-05-01",
    } | entered


def budget_form(**entered: Any) -> Form:
    names = ("amount", "currency", "first_day", "last_day", "vendor", "model_pattern")
    return dict.fromkeys(names, "") | {"device_hours": "7", "period": "month"} | entered


WALK: dict[type[Model], Entries] = {
    models.Tenant: Entries(
        make=lambda: tenants.tenant_save(name="labs", **WHY),
        add=lambda: {"name": "added", "parent": "", "note": ""},
        change=lambda: {"name": "labs", "parent": "", "note": "changed"},
        kind="tenant",
    ),
    models.Namespace: Entries(
        make=lambda: namespaces.namespace_save(name="nlp", **WHY),
        add=lambda: {"name": "added", "tenant": "", "mode": "wait"},
        change=lambda: {"tenant": "", "mode": "warn"},
        kind="namespace",
    ),
    models.Quota: Entries(
        make=lambda: quotas.quota_set(namespace="nlp", limits=Limits(devices=3), **WHY),
        add=lambda: no_limits(
            namespace=rows.namespace_row("nlp").pk, tenant="", name="added", memory_mib="0", seen_version="0"
        ),
        change=lambda: no_limits(name="default", devices="4", seen_version="1"),
        kind="quota",
    ),
    models.Device: Entries(
        make=device,
        change=lambda: {"cordoned": "on", "reserved_mib": "100", "note": "fan"},
        deletes=False,
        kind="device",
    ),
    models.Hold: Entries(
        make=hold,
        add=lambda: {"device": device().pk, "memory_mib": "10", "expires_at_0": "", "expires_at_1": ""},
        change=lambda: {"memory_mib": "20", "expires_at_0": "", "expires_at_1": ""},
        kind="hold",
    ),
    models.Price: Entries(
        make=price,
        add=price_form,
        change=lambda: price_form(model_pattern="*A10*"),
        kind="price",
    ),
    models.Budget: Entries(
        make=lambda: budgets.budget_set(namespace="nlp", plan=Plan(device_hours=5), **WHY),
        add=lambda: budget_form(namespace=rows.namespace_row("nlp").pk, tenant="", name="added", seen_version="0"),
        change=lambda: budget_form(name="default", device_hours="6", seen_version="1"),
        kind="budget",
    ),
    models.Role: Entries(
        make=role,
        add=lambda: {"user": root(), "group": "", "role": "viewer", "tenant": "", "namespace": ""},
        kind="role",
    ),
    models.ApiToken: Entries(
        make=lambda: models.ApiToken.objects.create(models.User.objects.get(username="root"))[0],
        add=lambda: {"user": root(), "name": "ci", "lives_days": "1"},
        kind="token",
    ),
}

LEDGER_ADMINS = [one for one in console.site._registry.values() if isinstance(one, console.LedgerAdmin)]
READ_ADMINS = [
    one
    for one in console.site._registry.values()
    if isinstance(one, console.ReadAdmin) and not isinstance(one, console.LedgerAdmin)
]


def named(value: object) -> str:
    return value.model.__name__ if isinstance(value, ModelAdmin) else str(value)


def url(admin: ModelAdmin, page: str, *args: Any) -> str:
    return reverse(f"admin:{admin.opts.app_label}_{admin.opts.model_name}_{page}", args=args)


class Watch:
    """What the ledger says before and after one change."""

    def __init__(self, admin: ModelAdmin) -> None:
        self.history = getattr(admin.model, "history", None)
        self.revision = live_view.live().refresh().clock.revision
        self.before = self.history.count() if self.history else 0

    def saw_one(self, kind: str) -> models.Journal:
        changed = list(models.Journal.objects.filter(revision__gt=self.revision))
        assert [(row.kind, row.actor) for row in changed] == [(kind, "root")]
        if self.history:
            assert self.history.count() == self.before + 1
            newest = self.history.latest("history_id")
            assert (newest.history_change_reason, newest.history_user.username) == ("the walk", "root")
        same_view()
        return changed[0]


def same_view() -> None:
    folded, loaded = live_view.live().refresh(), live_view.live().reload()
    for field in dataclasses.fields(folded):
        assert getattr(folded, field.name) == getattr(loaded, field.name), field.name


@pytest.fixture
def desk(client: Client) -> Client:
    """A superuser's browser."""
    client.force_login(models.User.objects.create_superuser("root"))
    return client


def posted(desk: Client, at: str, form: Form) -> None:
    answer = desk.post(at, form | {"reason": "the walk"})
    assert answer.status_code == 302, answer.context["errors"] if answer.context else answer


@pytest.mark.parametrize("admin", LEDGER_ADMINS, ids=named)
def test_every_ledger_admin_is_walked(admin: ModelAdmin) -> None:
    assert admin.model in WALK


@pytest.mark.parametrize("admin", LEDGER_ADMINS, ids=named)
def test_adding_is_one_change(desk: Client, admin: ModelAdmin) -> None:
    entries = WALK[admin.model]
    if entries.add is None:
        assert desk.get(url(admin, "add")).status_code == 403
        return
    form = entries.add()
    assert desk.get(url(admin, "add")).status_code == 200
    watch = Watch(admin)
    posted(desk, url(admin, "add"), form)
    watch.saw_one(entries.kind)


@pytest.mark.parametrize("admin", LEDGER_ADMINS, ids=named)
def test_changing_is_one_change(desk: Client, admin: ModelAdmin) -> None:
    entries = WALK[admin.model]
    row = entries.make()
    assert desk.get(url(admin, "changelist")).status_code == 200
    assert desk.get(url(admin, "change", row.pk)).status_code == 200
    if entries.change is None:
        assert desk.post(url(admin, "change", row.pk), {}).status_code == 403
        return
    watch = Watch(admin)
    posted(desk, url(admin, "change", row.pk), entries.change())
    watch.saw_one(entries.kind)


@pytest.mark.parametrize("admin", LEDGER_ADMINS, ids=named)
def test_deleting_asks_for_a_reason_and_is_one_change(desk: Client, admin: ModelAdmin) -> None:
    entries = WALK[admin.model]
    row = entries.make()
    at = url(admin, "delete", row.pk)
    if not entries.deletes:
        assert desk.post(at, {"reason": "the walk"}).status_code == 403
        return
    assert desk.get(at).status_code == 200
    watch = Watch(admin)
    assert desk.post(at, {"reason": ""}).status_code == 200
    posted(desk, at, {})
    watch.saw_one(entries.kind)


@pytest.mark.parametrize("admin", [one for one in LEDGER_ADMINS if WALK[one.model].deletes], ids=named)
def test_deleting_selected_rows_goes_through_the_service(desk: Client, admin: ModelAdmin) -> None:
    row = WALK[admin.model].make()
    watch = Watch(admin)
    posted(desk, url(admin, "changelist"), {"action": "remove_selected", "_selected_action": [row.pk], "index": 0})
    watch.saw_one(WALK[admin.model].kind)


@pytest.mark.parametrize("admin", [one for one in LEDGER_ADMINS if isinstance(one, console.HistoryAdmin)], ids=named)
def test_going_back_in_history_is_one_change(desk: Client, admin: ModelAdmin) -> None:
    entries = WALK[admin.model]
    assert entries.change is not None
    row = entries.make()
    first = type(row).history.earliest("history_id")  # type: ignore[attr-defined]
    posted(desk, url(admin, "change", row.pk), entries.change())
    assert desk.get(url(admin, "history", row.pk)).status_code == 200
    at = url(admin, "simple_history", row.pk, first.history_id)
    page = desk.get(at)
    assert page.status_code == 200
    watch = Watch(admin)
    posted(desk, at, as_shown(page.context["adminform"].form))
    watch.saw_one(entries.kind)
    row.refresh_from_db()
    for column in (column.name for column in first.tracked_fields if column.name not in ("reason", "version")):
        assert getattr(row, column) == getattr(first, column), column


def as_shown(form: Any) -> Form:
    """What a browser sends when nothing is touched."""
    sent: Form = {}
    for field in form:
        value = field.value()
        if isinstance(value, bool):
            sent |= {field.html_name: "on"} if value else {}
        elif (
            field.name.startswith(("valid_", "expires_"))
            and form.fields[field.name].widget.__class__.__name__ != "AdminDateWidget"
        ):
            sent |= {f"{field.html_name}_0": "", f"{field.html_name}_1": ""}
        else:
            sent[field.html_name] = "" if value is None else str(value)
    return sent


@pytest.mark.parametrize("admin", READ_ADMINS, ids=named)
def test_what_is_only_shown_cannot_be_changed(desk: Client, admin: ModelAdmin) -> None:
    rows.node()
    rows.pod()
    assert desk.get(url(admin, "changelist")).status_code == 200
    assert desk.get(url(admin, "changelist"), {"q": "n1"} if admin.search_fields else {}).status_code == 200
    assert desk.post(url(admin, "add"), {}).status_code == 403
    for row in admin.model._default_manager.all()[:1]:
        assert desk.get(url(admin, "change", row.pk)).status_code == 200
        assert desk.post(url(admin, "change", row.pk), {}).status_code == 403
        assert desk.post(url(admin, "delete", row.pk), {"post": "yes"}).status_code == 403
