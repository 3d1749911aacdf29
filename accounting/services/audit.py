"""The self-check: computes from the API server what each pod should hold, and compares it with what the ledger says.

Differences become findings; the services that repair them are the reconcilers, which the caller runs first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accounting import ledger, live_view
from accounting.models import Finding
from accounting.services import findings, reconcile, wire_texts
from accounting.services.seen import PodSeen
from hami_platform.domain import lifecycle
from hami_platform.domain.devices import DeviceKey, Held
from hami_platform.domain.errors import WireError
from hami_platform.domain.rows import HOLDS_BY_STATUS, HOLDS_PEAK, PodRow
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.view import View
from hami_platform.kube import api as ports

DRIFT = "drift-"
"""Begins the kind of each finding about a difference."""
TABLES = {
    "node": "nodes", "hold": "holds", "pod": "pods", "namespace": "namespaces", "tenant": "tenants", "quota": "quotas",
    "native": "natives", "lock": "locks",
}  # fmt: skip
"""The Journal's word for each of the View's tables of rows."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One pod about which the ledger and the API server disagree. kind: leaked | missing | changed | view."""

    kind: str
    subject: str
    message: str
    uid: str = ""


def audit_run(api: ports.Api, *, config: DeviceConfig) -> list[Difference]:
    """Reconcile, compare, and raise a finding for each difference that is left; those that are over are closed.

    A View that differs from the rows is loaded anew, and the rows in which it differs are journaled, so that every
    process reads them anew. Of what a pod holds the ledger's rows are the truth, not the pod's annotations: such a
    difference stays open for people.
    """
    reconcile.everything_reconcile(api, config=config)
    folded = live_view.live().refresh()
    found = differences(api, config=config)
    stale = any(one.kind == "view" for one in found)
    behind = _changed_behind(folded, live_view.live().reload()) if stale else []
    cluster = ledger.cluster_id()
    open_ = set(
        Finding.objects.filter(cluster=cluster, kind__startswith=DRIFT, repaired_at=None).values_list("kind", "subject")
    )
    now = {(f"{DRIFT}{one.kind}", one.subject) for one in found}
    if found or open_:
        with ledger.transaction(cause="audit_run") as entry:
            for kind, key in behind:
                entry.record(kind, key)
            for one in found:
                findings.finding_raise(
                    entry, kind=f"{DRIFT}{one.kind}", subject=one.subject, message=one.message[:1000],
                    evidence={"uid": one.uid}, repair="loaded anew" if one.kind == "view" else "",
                )  # fmt: skip
            for kind, subject in open_ - now:
                findings.finding_close(
                    entry, kind=kind, subject=subject, repair="the ledger and the cluster agree again"
                )
    return found


def differences(api: ports.Api, *, config: DeviceConfig) -> list[Difference]:
    """What differs, rows that changed while the list was read left out. Also compares the View with a fresh load."""
    before = live_view.live().refresh()
    pods = {one.uid: one for one in reconcile.pods_shown(api, config=config)}
    after = live_view.live().refresh()
    steady = [row for row in before.pods.values() if row.uid and after.pods.get(row.id) is row]
    found = [diff for row in steady if (diff := _compare(row, pods.get(row.uid), config)) is not None]
    found += [
        Difference("missing", f"{one.namespace}/{one.name}", f"bound to {one.node}, not in the ledger", one.uid)
        for one in pods.values()
        if one.node
        and one.request.asks
        and not one.terminal
        and before.pod(one.uid) is None
        and after.pod(one.uid) is None
    ]
    return found + view_differences(after)


def _changed_behind(folded: View, fresh: View) -> list[tuple[str, str | int]]:
    """(kind, key) of rows that are others than they were folded: somebody wrote them past the ledger. What changed
    meanwhile in the ledger's way may be among them; to read it once more does no harm."""
    found: list[tuple[str, str | int]] = []
    for kind, table in TABLES.items():
        before, after = getattr(folded, table), getattr(fresh, table)
        found += [(kind, key) for key in {*before, *after} if before.get(key) != after.get(key)]
    return sorted(found, key=str)


def _compare(row: PodRow, pod: PodSeen | None, config: DeviceConfig) -> Difference | None:
    subject = f"{row.namespace}/{row.name}"
    if pod is None or pod.terminal:
        return Difference("leaked", subject, f"{row.state} in the ledger, gone or finished in the cluster", row.uid)
    if row.state in HOLDS_BY_STATUS and row.node != pod.node:
        return Difference(
            "changed", subject, f"on node {row.node} in the ledger, {pod.node or 'unbound'} in the cluster", row.uid
        )
    if pod.node and row.state not in HOLDS_BY_STATUS | HOLDS_PEAK:
        return Difference("changed", subject, f"{row.state} in the ledger, bound to {pod.node} in the cluster", row.uid)
    if not pod.node or row.unmanaged:
        return None
    try:
        shares, aligned = wire_texts.shares_from(
            pod.annotations, pod.request.containers, {s.key: s.model for s in row.shares}, config
        )
    except WireError as fault:
        return Difference("changed", subject, f"its annotations cannot be decoded: {fault}", row.uid)
    expected = lifecycle.held(shares, pod.request.containers, pod.facts, aligned=aligned)
    if _plain(expected) != _plain(row.held):
        return Difference(
            "changed",
            subject,
            f"holds {_plain(row.held)} in the ledger, {_plain(expected)} by its annotations",
            row.uid,
        )
    return None


def _plain(held: Mapping[DeviceKey, Held]) -> dict[str, tuple[int, int, int]]:
    return {uuid: (one.slots, one.memory_mib, one.core_percent) for (_, uuid), one in sorted(held.items()) if one}


def view_differences(folded: View) -> list[Difference]:
    """Where this process's folded View differs from one loaded from the rows at the same revision."""
    fresh = live_view.LiveView(ledger.cluster_id()).reload()
    if fresh.clock.revision != folded.clock.revision:
        return []
    parts = [name for name in View.__dataclass_fields__ if getattr(fresh, name) != getattr(folded, name)]
    return [Difference("view", "view", f"folded View differs from a fresh load in {', '.join(parts)}")] if parts else []
