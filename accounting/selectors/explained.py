"""An explanation as plain data, the same for page, REST and command line: what the reader may see, texts included.

What lies outside a reader's reach stays in the sums and loses its name. Must not know: how anything was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from accounting import ledger
from accounting.models import Refusal
from accounting.selectors import fix_links, holders, pods
from accounting.selectors.access import Reach
from hami_platform.domain import arithmetic, checks, explain, fixes, place
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.rows import PodRow
from hami_platform.domain.sentences import Sentence, phrase
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.view import View

Tell = Callable[[Sentence], str]
Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads, and how sentences are told to her. config: for the names of resources."""

    view: View
    reach: Reach
    config: DeviceConfig
    tell: Tell = str


def of_pod(reader: Reader, row: PodRow, found: explain.Explanation) -> Data:
    """The explanation of a live pod, with its ages."""
    refusal = Refusal.objects.filter(cluster=ledger.cluster_id(), pod_uid=row.uid).first() if row.uid else None
    created = datetime.fromtimestamp(row.created_at_s, UTC) if row.created_at_s else None
    now = ledger.database_time()
    ages = {
        "evaluated_at": now,
        "first_pending_at": created,
        "age_s": max(0, int((now - created).total_seconds())) if created else None,
        "last_refused_at": refusal.at if refusal else None,
        "last_refused_for": refusal.summary if refusal else "",
    }
    name = {"uid": row.uid, "namespace": row.namespace, "name": row.name, "state": row.state}
    return name | _common(reader, found, row.namespace, row.request) | ages


def of_ask(reader: Reader, namespace: str, request: PodRequest, found: explain.Explanation) -> Data:
    """The explanation of a pod that does not exist."""
    name = {"uid": "", "namespace": namespace, "name": "", "state": ""}
    ages = {"evaluated_at": ledger.database_time(), "first_pending_at": None, "age_s": None}
    return name | _common(reader, found, namespace, request) | ages | {"last_refused_at": None, "last_refused_for": ""}


def _common(reader: Reader, found: explain.Explanation, namespace: str, request: PodRequest) -> Data:
    links = fix_links.Links(reader.view, reader.reach, reader.config, namespace, request, found.fixes)
    return {
        "asks": pods.request_text(request),
        "verdict": found.verdict.value,
        "headline": reader.tell(found.headline),
        "summary": found.summary,
        "revision": found.revision,
        "checks": [_check(reader, one) for one in found.checks],
        "reasons": [{"code": reason.value, "nodes": count} for reason, count in found.reasons],
        "candidates": found.candidates,
        "nodes": [_node(reader, one) for one in found.nodes],
        "nodes_left_out": found.nodes_left_out,
        "placement": _placement(found.placement),
        "fixes": [_fix(reader, links, one) for one in found.fixes],
        "position": _position(found.position),
    }


def _check(reader: Reader, one: checks.Check) -> Data:
    return {
        "stage": one.stage, "ok": one.ok, "code": one.code, "text": reader.tell(one.text),
        "have": one.have, "need": one.need, "unit": one.unit, "scope": one.scope,
    }  # fmt: skip


def _node(reader: Reader, line: arithmetic.NodeLine) -> Data:
    return {
        "node": line.node,
        "ok": line.reason is None,
        "code": line.reason.value if line.reason is not None else "",
        "text": line.text,
        "devices_needed": line.count,
        "devices_good": line.good,
        "devices": [_card(reader, card) for card in line.cards],
    }


def _card(reader: Reader, card: arithmetic.Card) -> Data:
    return {
        "uuid": card.uuid, "index": card.index, "model": card.model, "chosen": card.chosen,
        "ok": card.reason is None, "code": card.reason.value if card.reason is not None else "",
        "memory_mib": card.memory_mib, "free_mib": card.free_mib, "need_mib": card.need_mib,
        "core_percent": card.core_percent, "free_core_percent": card.free_core_percent,
        "need_core_percent": card.need_core_percent,
        "slots": card.slots, "free_slots": card.free_slots, "reserved_mib": card.reserved_mib,
        "holders": [_holder(reader, one) for one in card.holders],
    }  # fmt: skip


def _holder(reader: Reader, one: arithmetic.Holder) -> Data:
    amounts = {
        "memory_mib": one.held.memory_mib, "core_percent": one.held.core_percent, "slots": one.held.slots
    }  # fmt: skip
    if one.hold is not None:
        return {"kind": "hold", "name": f"hold {one.hold}", "uid": "", "namespace": ""} | amounts
    row = reader.view.pods.get(one.pod or 0)
    if row is None or not reader.reach.sees(row.namespace):
        return {"kind": "pod", "name": "another namespace", "uid": "", "namespace": ""} | amounts
    label = f"{row.namespace}/{row.name}"
    return {"kind": "pod", "name": label, "uid": holders.pod_key(row), "namespace": row.namespace} | amounts


def _placement(found: place.Placement | None) -> Data | None:
    if found is None:
        return None
    return {
        "node": found.node,
        "shares": [
            {
                "container": one.container, "uuid": one.uuid, "memory_mib": one.memory_mib,
                "core_percent": one.core_percent, "mig": one.mig.profile if one.mig else "",
            }
            for one in found.shares
        ],
    }  # fmt: skip


def _fix(reader: Reader, links: fix_links.Links, fix: fixes.Fix) -> Data:
    devices = list(dict.fromkeys(share.uuid for share in fix.placement.shares))
    effect = phrase("Then it is placed on %(node)s: %(devices)s.", node=fix.placement.node, devices=", ".join(devices))
    return {
        "steps": [_step(reader, links, step) for step in fix.steps],
        "effect": reader.tell(effect),
        "node": fix.placement.node,
        "devices": devices,
    }


def _step(reader: Reader, links: fix_links.Links, step: fixes.Step) -> Data:
    hidden = links.hides(step)
    action = _unnamed(step) if hidden else step.action
    return {
        "kind": step.kind.value,
        "action": reader.tell(action),
        "role": step.role,
        "value": step.value,
        "may": not hidden and links.may(step),
        "url": "" if hidden else links.url(step),
        "command": "" if hidden else links.command(step),
    }


def _unnamed(step: fixes.Step) -> Sentence:
    """The same of a pod whose name the reader may not know."""
    values = {name: value for name, value in step.action.values if name in ("mib", "percent", "node", "to")}
    if step.kind is fixes.Kind.MOVE:
        return phrase("Delete a pod in another namespace on %(node)s: there is room for it on %(to)s.", **values)
    if step.kind is fixes.Kind.PREEMPT:
        return phrase(
            "Delete a pod of lower priority in another namespace: "
            "it holds %(mib)s MiB and %(percent)s %% of cores on %(node)s.",
            **values,
        )
    if "mib" not in values:
        return phrase("Wait until a pod in another namespace ends: it takes part of the same limit.")
    return phrase(
        "Wait until a pod in another namespace ends: it holds %(mib)s MiB and %(percent)s %% of cores on %(node)s.",
        **values,
    )


def _position(found: explain.Position | None) -> Data | None:
    if found is None:
        return None
    return {
        "place": found.place, "of": found.of,
        "place_in_namespace": found.place_in_namespace, "of_namespace": found.of_namespace,
    }  # fmt: skip


def names_of(reader: Reader, rows: Iterable[PodRow]) -> tuple[list[dict[str, str]], int]:
    """(pods that the reader may see, how many others)."""
    rows = list(rows)
    seen = [row for row in rows if reader.reach.sees(row.namespace)]
    named = [{"uid": row.uid, "namespace": row.namespace, "name": row.name} for row in seen]
    return named, len(rows) - len(seen)
