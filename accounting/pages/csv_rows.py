"""Rows of the pages' tables for spreadsheets: plain amounts, their units in the names. It must not know requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from accounting.models import ApiToken, Finding, Node, Share, Trace
from accounting.pages.charts import Chart
from accounting.selectors import finding_words, words
from accounting.selectors.activity import Change
from accounting.selectors.cluster import Cell, Figure
from accounting.selectors.health import Health
from accounting.selectors.holders import Holder
from accounting.selectors.idle import IdleShare
from accounting.selectors.measured import Measured
from accounting.selectors.native_beside import Beside
from accounting.selectors.pods import PodLine
from accounting.selectors.quota_bars import QuotaBar
from accounting.selectors.readings import Reading
from accounting.selectors.settings_shown import Dependency, Shown
from accounting.services.standing import Starved
from hami_platform.domain.devices import Held
from hami_platform.domain.fragments import Fragments
from hami_platform.domain.quota import Amounts

Row = dict[str, Any]


def pod(line: PodLine) -> Row:
    """A pod of a list."""
    row, holds = line.row, line.holds
    return {
        "namespace": row.namespace, "name": row.name, "uid": row.uid, "state": row.state, "unmanaged": row.unmanaged,
        "asks": line.asks, "holds_devices": holds.devices, "holds_memory_mib": holds.memory_mib,
        "holds_core_percent": holds.core_percent, "node": row.node, "reason": line.reason, "never_fits": line.never,
        "why": words.told(line.why), "created_at": _at(line.since),
    }  # fmt: skip


def waiting(place: int | None, line: PodLine, sentence: str) -> Row:
    """A pod that waits. place: in the whole queue."""
    return {"place": place, **pod(line), "why": words.told(sentence)}


def node(row: Node, sums: Figure | None, *, everything: bool) -> Row:
    """A node. Why its holders are unknown may name pods, and is for those who see everything."""
    return {
        "node": row.name, "retired": row.retired, "cordoned_in_kubernetes": row.unschedulable,
        "memory_held_mib": sums.held if sums else None, "memory_mib": sums.total if sums else None, "agent": row.agent,
        "holders_unknown": row.accounting_unknown if everything else bool(row.accounting_unknown),
        "problem": row.problem,
    }  # fmt: skip


def device(cell: Cell, read: Reading | None) -> Row:
    """A device with its latest reading, where that says something of now."""
    one, held = cell.state.device, cell.state.held
    now = read if read is not None and not read.old else None
    return {
        "uuid": one.uuid, "node": cell.node, "index": one.index, "vendor": one.vendor, "model": one.model,
        "marks": ", ".join(mark for _glyph, mark in cell.marks), "memory_held_mib": held.memory_mib,
        "memory_reserved_mib": one.reserved_mib, "memory_mib": one.memory_mib, "core_held_percent": held.core_percent,
        "core_percent": one.core_percent, "shares_held": held.slots, "shares": one.slots,
        "core_used_percent": now.core_used_percent if now else None,
        "temperature_c": now.temperature_c if now else None, "power_w": now.power_w if now else None,
        "holders": "; ".join(who.label for who in cell.holders),
    }  # fmt: skip


def holder(one: Holder) -> Row:
    """Who holds a part of a device."""
    return {
        "holder": one.label, "state": one.state, "memory_mib": one.held.memory_mib, "init_only_mib": one.init_mib,
        "core_percent": one.held.core_percent, "shares": one.held.slots,
    }  # fmt: skip


def measured(one: Measured) -> Row:
    """What was measured of a share."""
    return {
        "pod": one.pod, "container": one.container, "node": one.node, "uuid": one.uuid,
        "memory_used_mib": one.memory_used_mib, "memory_peak_mib": one.memory_peak_mib,
        "core_used_percent": one.core_used_percent, "core_of_share_percent": one.core_of_share, "at": _at(one.at),
    }  # fmt: skip


def amounts(kind: tuple[str, str], held: Amounts) -> Row:
    """What a namespace holds of a model; without a model: claimed, no device yet."""
    return {
        "vendor": kind[0], "model": kind[1], "devices": held.devices, "memory_mib": held.memory_mib,
        "core_percent": held.core_percent,
    }  # fmt: skip


def held(key: tuple[str, str], amount: Held) -> Row:
    """What a pod holds of a device now."""
    return {
        "vendor": key[0], "uuid": key[1], "memory_mib": amount.memory_mib, "core_percent": amount.core_percent,
        "shares": amount.slots,
    }  # fmt: skip


def share(one: Share) -> Row:
    """What a container was given."""
    return {
        "container": one.container, "kind": one.kind, "vendor": one.vendor, "uuid": one.uuid, "model": one.model,
        "memory_mib": one.memory_mib, "core_percent": one.core_percent, "mig_profile": one.mig_profile,
    }  # fmt: skip


def decision(one: Trace) -> Row:
    """A decision about a pod."""
    return {
        "first_at": _at(one.first_at), "last_at": _at(one.last_at), "verdict": one.verdict, "reason": one.reason,
        "summary": words.told(one.summary), "times": one.times,
    }  # fmt: skip


def limit(bar: QuotaBar) -> Row:
    """A limit with what is used of it."""
    return {
        "limit_of": bar.rule, "scope": bar.scope, "scope_kind": bar.scope_kind, "resource": bar.resource,
        "selector": bar.selector, "native": bar.native, "used": bar.used, "claimed": bar.claimed,
        "releasing": bar.releasing, "limit": bar.limit, "free": bar.free, "over": bar.over,
    }  # fmt: skip


def starved(one: Starved) -> Row:
    """Who waits although the limits would allow it."""
    return {
        "scope": one.scope, "scope_kind": one.kind, "pods": one.pods, "asked_devices": one.asked.devices,
        "asked_memory_mib": one.asked.memory_mib, "asked_core_percent": one.asked.core_percent,
        "fullest_limit": one.fill.resource if one.fill else "",
        "fullest_percent": one.fill.percent if one.fill else None, "since": _at(one.since),
    }  # fmt: skip


def beside(one: Beside) -> Row:
    """A ResourceQuota beside the limit of ours."""
    return {
        "namespace": one.namespace, "object_name": one.object_name, "vendor": one.vendor, "resource": one.resource,
        "native": one.native, "ours": one.ours, "limit_of": one.rule, "flag": one.flag,
    }  # fmt: skip


def findings(rows: Iterable[Finding]) -> Iterator[Row]:
    """Findings, open and repaired."""
    for one in rows:
        yield {
            "kind": one.kind, "subject": one.subject, "message": words.told(one.message),
            "mends": finding_words.told(one).mends, "found_at": _at(one.found_at),
            "last_seen_at": _at(one.last_seen_at), "repaired_at": _at(one.repaired_at),
            "repair": words.told(one.repair),
        }  # fmt: skip


def change(one: Change) -> Row:
    """A change of the ledger."""
    return {
        "revision": one.row.revision, "at": _at(one.row.at), "kind": one.row.kind, "subject": one.subject,
        "cause": one.row.cause, "what": one.what, "actor": one.row.actor, "reason": one.reason,
    }  # fmt: skip


def jobs(found: Health) -> Iterator[Row]:
    """Jobs of which only one process does each at a time."""
    for one in found.jobs:
        yield {
            "job": one.name, "ended_well_s_ago": one.ago_s, "runs_now": one.held, "changed_hands": one.epoch,
            "holder": one.holder,
        }  # fmt: skip


def locks(found: Health) -> Iterator[Row]:
    """Locked nodes."""
    for one in found.locks:
        yield {
            "node": one.node, "holder": one.holder, "mode": one.mode, "age_s": one.age_s, "stale": one.stale,
            "overdue": one.overdue,
        }  # fmt: skip


def idle(one: IdleShare) -> Row:
    """A share that is held and not used."""
    return {
        "namespace": one.pod.namespace, "pod": one.pod.name, "uid": one.pod.uid, "node": one.node,
        "uuid": one.device.uuid, "model": one.device.model, "held_since": _at(one.since),
        "percent_of_device": one.percent_of_device, "core_used_percent": one.used.core_percent,
        "core_of_share_percent": one.percent_of_share, "memory_used_mib": one.used.memory_mib,
        "memory_held_mib": one.held.memory_mib,
        "cost_of_an_hour": "; ".join(
            f"{cents // 100}.{cents % 100:02} {currency}" for currency, cents in sorted(one.cost.hour_cents.items())
        ),
    }  # fmt: skip


def fragments(one: Fragments) -> Row:
    """How much of a model's free memory can be asked for."""
    quarters = ("none", "to_25_percent", "to_50_percent", "to_75_percent", "to_100_percent")
    return {
        "vendor": one.vendor, "model": one.model, "devices": one.devices, "memory_mib": one.memory_mib,
        "free_mib": one.free_mib, "largest_mib": one.largest_mib, "largest_on_node": one.largest_on[0],
        "largest_on_uuid": one.largest_on[1], "whole_devices": one.whole, "whole_on_one_node": one.whole_on_node,
        "asked_mib": one.ask.memory_mib, "asked_core_percent": one.ask.core_percent, "fits": one.fits,
        "lost_mib": one.lost_mib,
        **{f"free_{name}": n for name, n in zip(quarters, one.free_by_quarter, strict=True)},
    }  # fmt: skip


def dependency(one: Dependency) -> Row:
    """Something that the platform needs."""
    return {
        "dependency": str(one.name), "kind": one.what, "problem": str(one.problem), "took_ms": one.took_ms,
        "age_s": one.age_s,
    }  # fmt: skip


def settings(groups: Iterable[tuple[str, Iterable[Shown]]]) -> Iterator[Row]:
    """Every setting; of a secret only whether there is one."""
    for group, rows in groups:
        for one in rows:
            yield {
                "group": group, "setting": one.setting.variable, "value": one.value, "is_set": one.is_set,
                "source": one.source, "meaning": one.setting.help,
            }  # fmt: skip


def token(one: ApiToken) -> Row:
    """A token of the reader's, without its text."""
    return {
        "name": one.name, "begins_with": one.token_key, "scopes": " ".join(one.scopes), "roles": " ".join(one.roles),
        "namespaces": " ".join(one.namespaces), "networks": " ".join(one.networks), "created_at": _at(one.created),
        "expires_at": _at(one.expiry),
    }  # fmt: skip


def trend(chart: Chart | None) -> Iterator[Row]:
    """A trend, an hour a row, newest first."""
    for column in chart.rows if chart else ():
        cells = zip(chart.lines, column.cells, strict=True) if chart else ()
        yield {"hour": _at(column.hour)} | {line.kind: "" if cell == "–" else cell for line, cell in cells}


def _at(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None
