"""Brings the ledger in line with the API server by lists alone: level-triggered, no memory between runs.

All that the watcher does also comes right here, at tick speed. A list is only believed for what it shows; a pod that
is missing
from it is read by name before it counts as gone, and a row that changed while the list was read is left to the next
tick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accounting import ledger, live_view
from accounting.models import PodState
from accounting.services import (
    bindings,
    drift,
    listings,
    liveness,
    lock_repair,
    native_quotas,
    node_marks,
    node_seen,
    nodes,
    observe,
    refits,
    seen,
)
from accounting.services.node_seen import NodeSeen
from accounting.services.seen import PodSeen
from hami_platform import env, logs
from hami_platform.domain.rows import PodRow
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.view import View
from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors
from hami_platform.kube import leases as kube_leases

log = logs.get(__name__)
PAGE = 500
BINDING_SETTLES_S = 30


def listed(api: ports.Api, listing: calls.Listing[Any]) -> list[Mapping[str, Any]]:
    """Every object of a collection as plain JSON, read page by page from one consistent list. Raises kube errors."""
    found: list[Mapping[str, Any]] = []
    token = ""
    while True:
        page = api.send(listing.whole().page(limit=PAGE, token=token))
        found += page.items
        token = page.metadata.continue_
        if not token:
            return found


def pods_reconcile(api: ports.Api, *, config: DeviceConfig, fence: int | None = None) -> int:
    """Compare every pod; the number of rows that changed. What a watcher should have told is found (`drift`)."""
    before = live_view.live().refresh()
    found = pods_shown(api, config=config)
    behind = drift.lasting(before, found)
    changed = observe.pods_observe(found, config=config, fence=fence)
    changed += missing_release(api, before, {one.uid for one in found}, fence=fence)
    changed += refits.refits_settle(api, config=config)
    changed += bindings_settle(api, config=config, fence=fence)
    if behind:
        drift.tell(behind, kept=drift.compare(live_view.live().refresh(), found))
    return changed


def pods_shown(api: ports.Api, *, config: DeviceConfig) -> list[PodSeen]:
    """Every pod, from one consistent list. Raises kube errors."""
    return _pods_listed.of(api, calls.pods(), config)


_pods_listed = listings.Listings(seen.from_object)


def missing_release(api: ports.Api, before: View, present: set[str], *, fence: int | None = None) -> int:
    """Release the pods of `before` that a later list lacks, if a read by name agrees and their row has not changed
    since."""
    now = live_view.live().refresh()
    missing = [
        row
        for row in before.pods.values()
        if row.uid and row.uid not in present and now.pods.get(row.id) is row and _gone(api, row)
    ]
    return observe.pods_gone([row.uid for row in missing], fence=fence)


def _gone(api: ports.Api, row: PodRow) -> bool:
    """Whether no pod with this row's uid exists under its name."""
    found = read_pod(api, row.namespace, row.name)
    return found is None or (found.get("metadata") or {}).get("uid") != row.uid


def read_pod(api: ports.Api, namespace: str, name: str) -> Mapping[str, Any] | None:
    """The pod object as plain JSON, or None where the API server has none of that name."""
    try:
        return api.send(calls.pod_get(namespace=namespace, name=name).whole())
    except errors.NotFound:
        return None


def bindings_settle(api: ports.Api, *, config: DeviceConfig, fence: int | None = None) -> int:
    """Finish bindings whose process died: read the pod, and believe what it shows.

    A pod that is still unbound first gets a new resourceVersion, so that a Binding still on its way must fail.
    """
    late = [row for row in live_view.live().refresh().pods.values() if row.state == PodState.BINDING and _old(row)]
    settled = 0
    for row in late:
        try:
            _settle(api, row, config, fence)
            settled += 1
        except errors.ApiError as refusal:  # about this pod alone; the next tick reads it again
            log.warning("binding_not_settled", namespace=row.namespace, pod=row.name, uid=row.uid, why=str(refusal))
    return settled


def _settle(api: ports.Api, row: PodRow, config: DeviceConfig, fence: int | None) -> None:
    found = read_pod(api, row.namespace, row.name)
    meta = (found or {}).get("metadata") or {}
    if found is None or meta.get("uid") != row.uid or meta.get("deletionTimestamp"):
        _ended_or_seen(found, row, config, fence)
    elif (found.get("spec") or {}).get("nodeName"):
        observe.pods_observe([seen.from_object(found, config)], config=config, fence=fence)
    else:
        retry_at = f"bind-{row.bind_attempt}"
        api.send(calls.pod_retry(namespace=row.namespace, name=row.name, uid=row.uid, retry_at=retry_at))
        bindings.binding_returned(uid=row.uid, attempt=row.bind_attempt)


def _ended_or_seen(found: Mapping[str, Any] | None, row: PodRow, config: DeviceConfig, fence: int | None) -> None:
    same = found is not None and (found.get("metadata") or {}).get("uid") == row.uid
    if same and found is not None:
        observe.pods_observe([seen.from_object(found, config)], config=config, fence=fence)
    else:
        observe.pods_gone([row.uid], fence=fence)


def _old(row: PodRow) -> bool:
    """Whether the binding began so long ago that its process must have given up."""
    began = row.state_at_s
    return began is not None and ledger.database_time().timestamp() - began > BINDING_SETTLES_S


def nodes_reconcile(api: ports.Api, *, config: DeviceConfig, fence: int | None = None) -> int:
    """Compare every node, its signs of life and the locks that node annotations carry, and write what is missing on
    nodes; the number of nodes that changed."""
    shown = _nodes_listed.of(api, calls.nodes(), config, env.current().node_label_selector)
    found = [one for one in shown if one is not None]
    if any(one.agent for one in found):
        liveness.leases_heard(agents_renewed(api))
    changed = nodes_apply(api, found, config=config, complete=True, fence=fence, marks_s=node_marks.TICK_S)
    node_marks.handshakes_request(api, found, config=config)
    return changed


def agents_renewed(api: ports.Api) -> dict[str, str]:
    """Node → renewTime of its agent's Lease, as text."""
    found = listed(api, calls.leases(namespace=kube_leases.AGENTS_NAMESPACE))
    named = ((kube_leases.agent_node(one["metadata"]["name"]), one.get("spec") or {}) for one in found)
    return {node: spec.get("renewTime") or "" for node, spec in named if node}


def nodes_apply(
    api: ports.Api,
    found: Sequence[NodeSeen],
    *,
    config: DeviceConfig,
    complete: bool,
    fence: int | None = None,
    marks_s: float = node_marks.WRITING_S,
    between: Callable[[], None] = lambda: None,
) -> int:
    """Write these nodes, and the label by which narrowing finds them; `complete` means that nodes not among them may be
    gone (each is read before it is retired)."""
    changed = nodes.nodes_observe(found, config=config, fence=fence, between=between)
    lock_repair.locks_observe(found, fence=fence)
    node_marks.labels_add(api, found, config=config, within_s=marks_s)
    if complete:
        names = {one.name for one in found}
        known = [
            row.name for row in live_view.live().refresh().nodes.values() if not row.retired and row.name not in names
        ]
        changed += nodes.nodes_gone([name for name in known if _node_gone(api, name)], fence=fence)
    return changed


def managed(node: Mapping[str, Any]) -> bool:
    """Whether the node has the labels that the operator asks for. One that loses them is left as it is, as in HAMi."""
    labels = (node.get("metadata") or {}).get("labels") or {}
    return all(labels.get(name) == value for name, value in env.current().node_label_selector)


def managed_node(node: Mapping[str, Any], config: DeviceConfig) -> NodeSeen | None:
    """The node as it is seen; None for one that is none of ours."""
    return node_seen.from_object(node, config) if managed(node) else None


_nodes_listed = listings.Listings(managed_node)


def _node_gone(api: ports.Api, name: str) -> bool:
    try:
        api.send(calls.node_get(name=name))
    except errors.NotFound:
        return True
    return False


def quotas_reconcile(api: ports.Api, *, config: DeviceConfig, fence: int | None = None) -> int:
    """Compare every ResourceQuota; the number of rows that changed."""
    return native_quotas.native_quotas_observe(listed(api, calls.quotas()), config=config, complete=True, fence=fence)


def everything_reconcile(api: ports.Api, *, config: DeviceConfig, fence: int | None = None) -> int:
    """The full compare after which a (new or restored) ledger counts as true."""
    changed = nodes_reconcile(api, config=config, fence=fence)
    changed += quotas_reconcile(api, config=config, fence=fence)
    changed += pods_reconcile(api, config=config, fence=fence)
    compared(fence=fence)
    return changed


def pods_or_everything(api: ports.Api, *, config: DeviceConfig) -> int:
    """The pods tick: all collections where this history was never compared, else the pods."""
    if live_view.live().refresh().ready:
        return pods_reconcile(api, config=config)
    return everything_reconcile(api, config=config)


def compared(*, fence: int | None = None) -> None:
    """Record that a full compare was finished, if it is news."""
    if not live_view.live().refresh().ready:
        with ledger.transaction(cause="compared", fence=fence) as entry:
            ledger.compared_set(entry)
