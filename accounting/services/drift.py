"""Drift: what the ledger has not learned although a watcher is in office that should have told it long ago.

Lists are compared by every tick, and repair what differs; this says what was repaired, so that people see that
something is wrong with the watching. A difference that a watcher may be about to write is given a moment first.
Without a watcher in office ticks do its work, and nothing is odd about that.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from accounting import ledger, live_view
from accounting.models import ProcessLease
from accounting.services import findings, pod_rows
from accounting.services.seen import PodSeen
from hami_platform.domain.rows import PodRow
from hami_platform.domain.view import View

SETTLE_S = 2.0
"""A watcher applies an event within a fifth of a second, and a burst of them within this."""
MOST = 50
"""Findings of one run; a watcher that lost everything says no more by more of them."""

REPAIRS = {"leaked": "released", "missing": "counted", "changed": "brought in line"}

_pause = threading.Event()  # never set: a wait on it is a pause


@dataclass(frozen=True, slots=True)
class Drift:
    """One pod about which the ledger is behind. kind: leaked (held, but gone or finished), missing (bound, not held) or
    changed (held elsewhere or otherwise)."""

    kind: str
    uid: str
    subject: str
    message: str
    evidence: Mapping[str, object] = field(default_factory=dict, compare=False)


def lasting(view: View, seen: Sequence[PodSeen]) -> list[Drift]:
    """What differs between the View from before a list and the list, and still does a moment later.

    Waits that moment, in which no database connection is used, only where something differs and a watcher is in office.
    """
    if not (first := compare(view, seen)) or not _watched():
        return []
    _pause.wait(SETTLE_S)
    now = live_view.live().refresh()
    still = compare(now, seen)
    return [one for uid, one in still.items() if uid in first and _row(now, uid) is _row(view, uid)]


def _row(view: View, uid: str) -> PodRow | None:
    return view.pod(uid)


def _watched() -> bool:
    now = ledger.database_time()
    return ProcessLease.objects.filter(cluster=ledger.cluster_id(), name=ledger.WATCHER, until__gt=now).exists()


def compare(view: View, seen: Sequence[PodSeen]) -> dict[str, Drift]:
    """uid → how the ledger differs from these pods, which are all there are. Cheap: called for every list."""
    present = {one.uid for one in seen}
    found = {row.uid: _leaked(row) for row in view.pods.values() if row.uid and row.uid not in present and _holds(row)}
    for one in seen:
        if (drift := _differs(view.pod(one.uid), one)) is not None:
            found[one.uid] = drift
    return found


def _holds(row: PodRow) -> bool:
    return bool(row.charges or row.held)


def _leaked(row: PodRow) -> Drift:
    held = [[uuid, one.memory_mib, one.core_percent] for (_, uuid), one in row.held.items()]
    return Drift(
        "leaked", row.uid, f"{row.namespace}/{row.name}", f"{row.state} in the ledger, gone from the cluster",
        {"uid": row.uid, "node": row.node, "held": held},
    )  # fmt: skip


def _differs(row: PodRow | None, one: PodSeen) -> Drift | None:
    subject = f"{one.namespace}/{one.name}"
    evidence = {"uid": one.uid, "node": one.node, "phase": one.facts.phase}
    if row is None:
        if not one.node or not one.request.asks or one.terminal:
            return None
        return Drift("missing", one.uid, subject, f"bound to {one.node} in the cluster, not in the ledger", evidence)
    if one.resource_version < row.resource_version:
        return None
    evidence["state"] = row.state
    if one.terminal or (one.facts.deleting and one.unbound):
        message = f"{row.state} in the ledger, {one.facts.phase} in the cluster"
        return Drift("leaked", one.uid, subject, message, evidence) if _holds(row) else None
    if one.node and (row.state in pod_rows.UNBOUND or row.node != one.node):
        where = f"{row.state} on {row.node}" if row.node else row.state
        return Drift("changed", one.uid, subject, f"{where} in the ledger, on {one.node} in the cluster", evidence)
    if one.node and row.facts != one.facts:
        message = "containers started or ended that the ledger did not hear of"
        return Drift("changed", one.uid, subject, message, evidence)
    return None


def tell(drifts: Sequence[Drift], *, kept: Mapping[str, Drift]) -> None:
    """Record what was repaired, one finding for each; `kept` still differs, which the self-check says."""
    mended = [one for one in drifts if one.uid not in kept][:MOST]
    if not mended:
        return
    with ledger.transaction(cause="drift_tell") as entry:
        for one in mended:
            findings.finding_raise(
                entry, kind=f"drift-{one.kind}", subject=one.subject, message=one.message,
                evidence={**one.evidence, "found": len(drifts)}, repair=REPAIRS[one.kind],
            )  # fmt: skip
