"""Budgets on the command line: how they stand, and setting one."""

from __future__ import annotations

import getpass
import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.core.serializers.json import DjangoJSONEncoder

from accounting import live_view
from accounting.models import Budget
from accounting.selectors import access
from accounting.selectors import budgets as selectors
from accounting.selectors.budgets import HOURS, Burn, Standing
from accounting.services import budgets
from accounting.services.budgets import Plan
from accounting.services.errors import InvalidInput
from hami_platform.domain.quota import Selector

BAD_INPUT: Final = 2
NONE: Final = "none"


class Command(BaseCommand):
    """`manage.py budget list|show|set|remove`. Exit code 0: none shown is spent, 1: one is, 2: input."""

    help = "How budgets stand, and setting them. They inform and refuse nothing. Exit code 1: one shown is spent."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Four verbs."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        listing = verbs.add_parser("list", help="Every budget, the most used first.")
        listing.add_argument("--spent", action="store_true", help="Only those that are spent.")
        show = verbs.add_parser("show", help="Those of one namespace or tenant.")
        setting = verbs.add_parser("set", help="Make a budget, or change what is named; `none` plans nothing of it.")
        remove = verbs.add_parser("remove", help="Take a budget away.")
        for one in (show, setting, remove):
            one.add_argument("scope", help="namespace, or tenant:NAME")
        setting.add_argument("--hours", help="Device hours, or none.")
        setting.add_argument("--amount", help="Money with its currency, such as 1500EUR, or none.")
        setting.add_argument("--period", choices=Budget.Period.values)
        setting.add_argument("--from", dest="first", metavar="DAY", help="Of a budget for once, 2026-03-01.")
        setting.add_argument("--to", dest="last", metavar="DAY", help="Included.")
        setting.add_argument("--model", help="Count only models that match, such as '*A100*'.")
        for one in (setting, remove):
            one.add_argument("--name", default="default")
            one.add_argument("--reason", required=True)
            one.add_argument("--actor", default=getpass.getuser())
        for one in (listing, show, setting):
            one.add_argument("--json", action="store_true")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print how they stand."""
        try:
            found = {"set": _set, "remove": _removed}.get(options["verb"], _shown)(options)
        except InvalidInput as fault:
            raise CommandError(str(fault), returncode=BAD_INPUT) from fault
        if options.get("json"):
            self.stdout.write(json.dumps([_plain(one) for one in found], indent=2, cls=DjangoJSONEncoder))
        elif options["verb"] != "remove":
            for line in _lines(found):
                self.stdout.write(line)
        if any(one.state == "spent" for one in found):
            sys.exit(1)


def _shown(options: dict[str, Any]) -> list[Standing]:
    only = _scope(options["scope"]) if options["verb"] == "show" else {"namespace": "", "tenant": ""}
    found = selectors.standings(live_view.live().refresh(), access.ALL, **only)
    return [one for one in found if one.state == "spent" or not options.get("spent")]


def _set(options: dict[str, Any]) -> list[Standing]:
    scope = _scope(options["scope"])
    old = _found(scope, options["name"])
    row = budgets.budget_set(
        **scope,
        name=options["name"],
        plan=_plan(options, old),
        selector=Selector(old.vendor if old else "", options["model"] or (old.model_pattern if old else "")),
        reason=options["reason"],
        actor=options["actor"],
        expected_version=old.version if old else 0,
    )
    return selectors.of_rows(live_view.live().refresh(), [row], access.ALL)


def _removed(options: dict[str, Any]) -> list[Standing]:
    old = _found(_scope(options["scope"]), options["name"])
    if old is None:
        raise InvalidInput("name", f"{options['scope']} has no budget {options['name']}")
    budgets.budget_delete(budget_id=old.pk, reason=options["reason"], actor=options["actor"])
    return []


def _scope(text: str) -> dict[str, Any]:
    tenant = text.removeprefix("tenant:") if text.startswith("tenant:") else ""
    return {"namespace": "" if tenant else text, "tenant": tenant}


def _found(scope: dict[str, Any], name: str) -> Budget | None:
    named = {f"{kind}__name": text for kind, text in scope.items() if text}
    return Budget.objects.filter(name=name, **named).first()


def _plan(options: dict[str, Any], old: Budget | None) -> Plan:
    """What is named, over what is there."""
    values = {name: getattr(old, name) for name in Plan.__slots__} if old else {}
    if options["hours"]:
        values["device_hours"] = _whole(options["hours"])
    if options["amount"]:
        values |= _money(options["amount"])
    if options["period"]:
        values |= {"period": options["period"], "first_day": None, "last_day": None}
    for option, name in (("first", "first_day"), ("last", "last_day")):
        if options[option]:
            values |= {name: _day(option, options[option]), "period": Budget.Period.ONCE}
    return Plan(**values)


def _whole(text: str) -> int | None:
    if text == NONE:
        return None
    if not text.isdigit():
        raise InvalidInput("hours", f"{text!r} is no whole number; `none` plans nothing of it")
    return int(text)


def _money(text: str) -> dict[str, Any]:
    if text == NONE:
        return {"amount": None, "currency": ""}
    try:
        return {"amount": Decimal(text.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")), "currency": text[-3:]}
    except InvalidOperation as fault:
        raise InvalidInput("amount", f"{text!r}: an amount with its currency, such as 1500EUR") from fault


def _day(option: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as fault:
        raise InvalidInput({"first": "from", "last": "to"}[option], "a day as 2026-01-31") from fault


def _plain(one: Standing) -> dict[str, Any]:
    return {
        "id": one.row.pk,
        one.scope_kind: one.scope,
        "name": one.row.name,
        "since": one.period.since,
        "until": one.period.until,
        "summed_at": one.at,
        "unpriced": list(one.unpriced),
        "simulated": one.simulated,
        "burns": [selectors.plain(burn) for burn in one.burns],
    }


def _lines(found: Sequence[Standing]) -> Iterator[str]:
    if not found:
        yield "no budget"
        return
    head = ("BUDGET", "PERIOD", "UNIT", "PLANNED", "USED", "%", "LEFT", "SPENT ON")
    rows = [
        (
            f"{one.rule}{f' ({one.selector})' if one.selector else ''}",
            f"{one.period.since:%Y-%m-%d} to {one.period.last_day}",
            "device hours" if burn.unit == HOURS else burn.unit,
            *(f"{float(amount):,.2f}" for amount in (burn.limit, burn.used)),
            str(burn.percent),
            f"{float(burn.left):,.2f}",
            _when(burn),
        )
        for one in found
        for burn in one.burns
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = (
            cell.rjust(w) if 3 <= n <= 6 else cell.ljust(w) for n, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def _when(burn: Burn) -> str:
    if burn.state == "spent":
        return "spent"
    if burn.pace is None:
        return "unknown"
    earliest, likely, latest = ("not in it" if at is None else f"{at:%Y-%m-%d}" for at in burn.spent)
    return likely if earliest == latest else f"{likely} ({earliest} … {latest})"
