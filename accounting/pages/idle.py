"""Room that cannot be used, and devices that are held and not used."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from accounting import ledger
from accounting.pages import csv_rows
from accounting.pages.shell import console, live_page, view_now
from accounting.selectors import access, idle
from hami_platform.domain import fragments
from hami_platform.domain.fragments import Ask, Fragments
from hami_platform.domain.view import View

SHOWN = 200
MOST_MIB = 10**9
IDLE_EVERY_S = 30
"""Idle is what has been so for many minutes."""
PERIODS = (30, 60, 360, 1440)


@console
def fragmentation(request: HttpRequest) -> HttpResponse:
    """The largest request that fits now, per model; and what of the free memory a request could not use."""
    view = view_now()
    asked = {name: _number(request, name, most) for name, most in (("memory_mib", MOST_MIB), ("core_percent", 100))}

    def content() -> dict[str, Any]:
        return {"models": models(), **asked}

    def models() -> list[Fragments]:
        return _fragments(view, asked["memory_mib"], asked["core_percent"] or 0)

    tables = {"fragmentation": lambda: map(csv_rows.fragments, models())}

    return live_page(request, "fragmentation", view, content, title=_("Fragmentation"), nav="usage", tables=tables)


@console
def idle_shares(request: HttpRequest) -> HttpResponse:
    """Shares that were held for some minutes without being used, and what is missing to tell."""
    view, reach = view_now(), access.reach_for(request)
    minutes = _number(request, "minutes", 7 * 1440) or idle.MINUTES
    below = _number(request, "below", 100) or idle.BUSY_PERCENT

    def content() -> dict[str, Any]:
        found = idle.idle(view, reach, minutes=minutes, below=below)
        return {"found": found, "shown": found.shares[:SHOWN], "periods": PERIODS}

    tables = {"idle": lambda: map(csv_rows.idle, idle.idle(view, reach, minutes=minutes, below=below).shares)}
    stamp = f"idle-{int(ledger.database_time().timestamp()) // IDLE_EVERY_S}"
    return live_page(request, "idle", view, content, title=_("Idle and waste"), nav="usage", stamp=stamp, tables=tables)


def _fragments(view: View, memory_mib: int | None, core_percent: int) -> list[Fragments]:
    """Of every model; without an amount a quarter of each model's memory is asked."""
    kinds = {(one.vendor, one.model): one for node in view.states.values() for one in _first(node)}
    asks = {
        kind: Ask(memory_mib, core_percent) if memory_mib else Ask(fragments.quarter(device).memory_mib, core_percent)
        for kind, device in kinds.items()
    }
    return fragments.fragments(view.states.values(), asks)


def _first(node: Any) -> list[Any]:
    """One device of each kind on a node: a model's devices are of one size nearly always."""
    return list({(one.device.vendor, one.device.model): one.device for one in node.devices}.values())


def _number(request: HttpRequest, name: str, most: int) -> int | None:
    """A whole number of the address from 1 to `most`, or None for anything else."""
    text = request.GET.get(name, "").strip()
    return min(most, int(text)) or None if text.isascii() and text.isdigit() and len(text) < 12 else None
