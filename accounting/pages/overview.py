"""The first screen, and the lists of nodes and devices with their pages."""

from __future__ import annotations

import itertools
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from accounting import ledger
from accounting.models import Device, Node
from accounting.pages import blocks, charts, csv_rows, csv_tables
from accounting.pages.shell import console, live_page, view_now
from accounting.selectors import (
    access,
    activity,
    cluster,
    device_page,
    freshness,
    holders,
    measured,
    pods,
    quota_bars,
    readings,
    shades,
)
from hami_platform.domain.view import View

CELLS = 1000
"""Up to this many devices each has a cell; beyond, each node has a block."""

READ_S = 10
"""How often a map of what agents read is drawn anew: of a large cluster something is read all the time."""

BARS = 4
SHOWN = 500


@console
def overview(request: HttpRequest) -> HttpResponse:
    """Is there room, who waits, who is near a limit, what is wrong."""
    view, reach = view_now(), access.reach_for(request)
    choice = shades.choice_of(request.GET.get("colour", ""))

    def content() -> dict[str, Any]:
        figures = cluster.figures(view, reach)
        waiting = pods.pod_lines(view, reach, state="pending")
        bars = quota_bars.all_bars(view, reach)
        return {
            "figures": figures,
            **_map(view, reach, choice, large=figures.devices.total > CELLS),
            "waiting": waiting[:6],
            "reasons": pods.by_reason(waiting),
            "denied": pods.denied(reach, limit=5),
            "bars": bars[:BARS],
            "more_bars": max(0, len(bars) - BARS),
            "findings": activity.open_findings(5) if reach.everything else [],
            "chart": charts.day_of_cluster(ledger.database_time()),
        }

    tables = {"trend": lambda: csv_rows.trend(charts.day_of_cluster(ledger.database_time()))}
    stamp = freshness.stamp(view)
    if choice.name in shades.READ:
        stamp += f"-{int(ledger.database_time().timestamp()) // READ_S}"
    return live_page(request, "overview", view, content, title=_("Cluster"), nav="cluster", stamp=stamp, tables=tables)


def _map(view: View, reach: access.Reach, choice: shades.Choice, *, large: bool) -> dict[str, Any]:
    """A cell for each device, or a block for each node."""
    shown: dict[str, Any] = {"choice": choice, "choices": shades.CHOICES.values()}
    amounts = choice.name == shades.MEMORY
    shown["legend"] = [] if amounts else shades.legend(choice)
    if large:
        return shown | {"blocks": blocks.block_groups(view) if amounts else blocks.shaded_groups(view, choice)}
    return shown | {"heat": cluster.heat_map(view, reach, None if amounts else shades.shader(choice))}


@console
def nodes(request: HttpRequest) -> HttpResponse:
    """Every node that has, or had, devices."""
    view, reach = view_now(), access.reach_for(request)
    text = request.GET.get("text", "").strip()
    found = Node.objects.filter(cluster=ledger.cluster_id(), name__icontains=text).order_by("name")

    def table() -> csv_tables.Rows:
        for row in found.iterator():
            yield csv_rows.node(row, _sums(view.states.get(row.name)), everything=reach.everything)

    def content() -> dict[str, Any]:
        rows = list(found.select_related("liveness")[:SHOWN])
        shown = [(row, _sums(view.states.get(row.name))) for row in rows]
        return {"rows": shown, "count": len(rows) if len(rows) < SHOWN else found.count(), "text": text}

    return live_page(request, "nodes", view, content, title=_("Nodes"), nav="nodes", tables={"nodes": table})


@console
def node(request: HttpRequest, name: str) -> HttpResponse:
    """One node: its devices, and its pods."""
    view, reach = view_now(), access.reach_for(request)
    row = Node.objects.filter(cluster=ledger.cluster_id(), name=name).select_related("liveness").first()
    if row is None:
        raise Http404(f"no node {name}")

    def content() -> dict[str, Any]:
        people = holders.holds_by_node(view).get(name, {})
        cells = list(cluster.cells_of(view, name, reach, people)) if name in view.states else []
        read = readings.node_read(row, [one.state.device.key for one in cells])
        return {
            "row": row,
            "blocked": view.states[name].blocked if name in view.states else None,
            "bars": [
                (one, device_page.memory_bar(one.state, one.holders), read[one.state.device.key]) for one in cells
            ],
            "unread": readings.unread(read.values()),
            "lines": pods.pod_lines(view, reach, node=name),
            "lock": view.locks.get(name),
            "chart": charts.day_of(ledger.database_time(), node=name),
        }

    tables: csv_tables.Tables = {
        "pods": lambda: map(csv_rows.pod, pods.pod_lines(view, reach, node=name)),
        "trend": lambda: csv_rows.trend(charts.day_of(ledger.database_time(), node=name)),
    }
    stamp = f"{freshness.stamp(view)}-{readings.newest(row)}"
    return live_page(request, "node", view, content, title=name, nav="nodes", stamp=stamp, tables=tables)


@console
def devices(request: HttpRequest) -> HttpResponse:
    """Every registered device with what is held of it; `text` narrows by node, model, uuid or mark."""
    view, reach = view_now(), access.reach_for(request)
    text = request.GET.get("text", "").strip()

    def found(most: int | None) -> tuple[list[tuple[cluster.Cell, readings.Reading | None]], int]:
        cells, count = cluster.cells_found(view, reach, text, most=most)
        read = readings.read_of(one.node for one in cells)
        return [(one, read.get((one.node, *one.state.device.key))) for one in cells], count

    def content() -> dict[str, Any]:
        shown, count = found(SHOWN)
        return {"cells": shown, "count": count, "text": text}

    tables = {"devices": lambda: itertools.starmap(csv_rows.device, found(None)[0])}
    return live_page(request, "devices", view, content, title=_("Devices"), nav="devices", tables=tables)


@console
def device(request: HttpRequest, uuid: str) -> HttpResponse:
    """One device: who holds what of it."""
    view, reach = view_now(), access.reach_for(request)
    rows = list(Device.objects.filter(cluster=ledger.cluster_id(), uuid=uuid).select_related("node")[:2])
    if not rows:
        raise Http404(f"no device {uuid}")
    here = {"uuid": uuid, "node": rows[0].node.name}

    def trend() -> charts.Chart | None:
        return charts.day_of(ledger.database_time(), **here)

    def content() -> dict[str, Any]:
        page = device_page.device_page(view, rows[0], reach)
        used = measured.device_measured(**here, reach=reach)
        held_mib = page.state.held.memory_mib + page.state.device.reserved_mib if page.state else 0
        return {
            "page": page,
            "slots": device_page.slots(page.state),
            "twins": len(rows) > 1,
            "measured": used,
            "read": readings.device_read(rows[0]),
            "beyond_mib": used.beyond_mib(held_mib),
            "chart": trend(),
        }

    tables: csv_tables.Tables = {
        "holders": lambda: map(csv_rows.holder, device_page.device_page(view, rows[0], reach).holders),
        "measured": lambda: map(csv_rows.measured, measured.device_measured(**here, reach=reach).shares),
        "trend": lambda: csv_rows.trend(trend()),
    }
    return live_page(request, "device", view, content, title=uuid, nav="devices", uuid=uuid, tables=tables)


def _sums(state: Any) -> cluster.Figure | None:
    """Memory held and registered on a node; None for one that offers nothing."""
    if state is None:
        return None
    held = sum(one.held.memory_mib for one in state.devices)
    return cluster.Figure(held, sum(one.device.memory_mib for one in state.devices))
