"""Writes what people decided in the demonstration: tenants, quotas, budgets, roles, prices; then a hold and a cordon.

All through the services, so that it looks as if people had done it. Only where HAMI_DEMO is on.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import time
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from accounting import ledger
from accounting.models import Device, User
from accounting.services import (
    budgets,
    devices,
    holds,
    login_links,
    namespaces,
    people,
    prices,
    quotas,
    simulated_usage,
    tenants,
)
from hami_platform import env
from hami_platform.domain import quota

REASON: Final = "Set up for the demonstration"
VENDOR: Final = "NVIDIA"
DEVICES_WITHIN_S: Final = 120.0


class Command(BaseCommand):
    """`manage.py demo_fill SCENARIO --links FILE`."""

    requires_system_checks: list[str] = []  # they load every page, and somebody waits for the first one
    help = "Fill an empty installation with the demonstration's people, limits and history."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """What to write, and where to leave the secrets of the sign-in links."""
        parser.add_argument("scenario", help="JSON file, as the demonstration writes it")
        parser.add_argument("--links", required=True, help="file for the secrets of two sign-in links; owner only")

    def handle(self, *_args: Any, **options: Any) -> None:
        """People first, so that a page can be looked at; then what needs devices; then the past."""
        if not env.current().demo:
            raise CommandError("HAMI_DEMO is off: this writes made-up data, which no real installation should have")
        asked = json.loads(pathlib.Path(options["scenario"]).read_text(encoding="utf-8"))
        with ledger.transaction(cause="demo_fill", actor=""):
            _scopes(asked)
            _users(asked)
        _links(pathlib.Path(options["links"]), asked["sign_in"])
        _devices(asked)
        hours = simulated_usage.usage_simulate(
            days=asked["history_days"],
            habits=[simulated_usage.Habit(vendor=VENDOR, **one) for one in asked["usage"]],
            seed=asked["seed"],
        )
        self.stdout.write(f"{hours} simulated hours of use")


def _scopes(asked: dict[str, Any]) -> None:
    for one in asked["tenants"]:
        tenants.tenant_save(**one, reason=REASON)
    for one in asked["namespaces"]:
        namespaces.namespace_save(**one, reason=REASON)
    for one in asked["quotas"]:
        scope = {key: one[key] for key in ("namespace", "tenant", "name") if key in one}
        selector = quota.Selector(**one.get("selector", {}))
        quotas.quota_set(**scope, limits=quota.Limits(**one["limits"]), selector=selector, reason=REASON)
    for one in asked["budgets"]:
        _budget(one, ledger.database_time().date())
    since = ledger.database_time().date() - timedelta(days=asked["history_days"])
    for one in asked["prices"]:
        hour = Decimal(one["device_hour"])
        prices.price_set(**one | {"device_hour": hour}, valid_from=since, reason=REASON)


def _budget(one: dict[str, Any], today: date) -> None:
    scope = {key: one[key] for key in ("namespace", "tenant", "name") if key in one}
    plan = dict(one["plan"])
    if "days" in one:
        first, last = (today + timedelta(days=n) for n in one["days"])
        plan |= {"period": "once", "first_day": first, "last_day": last}
    if "amount" in plan:
        plan["amount"] = Decimal(plan["amount"])
    selector = quota.Selector(**one.get("selector", {}))
    budgets.budget_set(**scope, plan=budgets.Plan(**plan), selector=selector, reason=REASON)


def _users(asked: dict[str, Any]) -> None:
    """Without passwords: they sign in by link only."""
    for one in asked["users"]:
        if not User.objects.filter(username=one["name"]).exists():
            make = User.objects.create_superuser if one.get("superuser") else User.objects.create_user
            make(one["name"])
        for role in one["roles"]:
            people.role_grant(user=one["name"], **role, reason=REASON)


def _links(file: pathlib.Path, user: str) -> None:
    """One for the person, one for the demonstration's own look at the page. Whole or not at all."""
    secrets = {who: login_links.login_link_create(user=user) for who in ("person", "look")}
    fresh = file.with_name(f".{file.name}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump(secrets, out)
    fresh.replace(file)


def _devices(asked: dict[str, Any]) -> None:
    hold, cordon = dict(asked["hold"]), asked["cordon"]
    for uuid in (hold["uuid"], cordon["uuid"]):
        _wait_for(uuid)
    place = {"node": hold.pop("node"), "uuid": hold.pop("uuid"), "reason": hold.pop("reason")}
    holds.hold_add(**place, vendor=VENDOR, amounts=holds.Amounts(**hold), actor="alice")
    devices.device_cordon(**cordon, vendor=VENDOR, cordoned=True, actor=asked["sign_in"])


def _wait_for(uuid: str) -> None:
    """Until a node has registered the device and the watcher has seen it."""
    until = time.monotonic() + DEVICES_WITHIN_S
    while not Device.objects.filter(cluster=ledger.cluster_id(), uuid=uuid).exists():
        if time.monotonic() > until:
            raise CommandError(f"device {uuid} was not registered within {DEVICES_WITHIN_S:.0f} s")
        time.sleep(0.1)
