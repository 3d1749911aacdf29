"""Locks that node annotations carry (where HAMi's plugin runs): mirrored in the ledger with the time we first saw
them, and taken off when their holder can no longer use them. Ages never come from the text: its clock is not ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from accounting import ledger, live_view
from accounting.models import NodeLock
from accounting.services import findings, lock_meters
from accounting.services.locks import ANNOTATION
from accounting.services.node_seen import LOCK, LOCK_MAX, NodeSeen
from hami_platform import env, logs
from hami_platform.domain.errors import WireError
from hami_platform.domain.view import View
from hami_platform.domain.wire import node_lock
from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors

log = logs.get(__name__)


def locks_observe(seen: Sequence[NodeSeen], *, fence: int | None = None) -> int:
    """Mirror the annotations of these nodes; the number of rows that changed."""
    cluster = ledger.cluster_id()
    rows = {row.node: row for row in NodeLock.objects.filter(cluster=cluster, mode=ANNOTATION)}
    news = [one for one in seen if (rows[one.name].value if one.name in rows else "") != one.lock]
    if not news:
        return 0
    with live_view.deciding(cause="locks_observe", fence=fence) as (entry, view):
        for one in news:
            existing = NodeLock.objects.filter(cluster=cluster, node=one.name, mode=ANNOTATION)
            if existing.filter(value=one.lock).exists():
                continue
            for since in list(existing.values_list("first_seen_at", flat=True)):
                lock_meters.fell(entry, mode=ANNOTATION, since=since)
            existing.delete()
            if one.lock and not NodeLock.objects.filter(cluster=cluster, node=one.name).exists():
                holder = _holder(view, one.lock)
                NodeLock.objects.create(
                    cluster_id=cluster,
                    node=one.name,
                    mode=ANNOTATION,
                    value=one.lock,
                    pod_uid=holder,
                    first_seen_at=entry.at,
                )
            entry.record("lock", one.name, value=one.lock)
    return len(news)


def locks_release_dead(api: ports.Api, *, fence: int | None = None) -> int:
    """Take off annotation locks whose holder is gone or has started, and those without a known holder after the
    time-out."""
    view = live_view.live().refresh()
    now = ledger.database_time()
    timeout = timedelta(seconds=env.current().node_lock_timeout_s)
    freed = 0
    for row in NodeLock.objects.filter(cluster=ledger.cluster_id(), mode=ANNOTATION):
        holder = _holder(view, row.value)
        pod = view.pod(holder) if holder else None
        alive = pod is not None and not (pod.facts is not None and pod.facts.started)
        if alive or (pod is None and now - row.first_seen_at < timeout and not _names_a_missing_pod(api, row.value)):
            continue
        if annotation_remove(api, node=row.node, value=row.value):
            freed += 1
            _tell(row, pod is not None, fence)
    return freed


def _tell(row: NodeLock, known: bool, fence: int | None) -> None:
    """An alarm for a lock that nobody we know of left behind: some writer on that node is at fault (H51)."""
    if known:
        return
    with ledger.transaction(cause="locks_release_dead", fence=fence) as entry:
        findings.finding_raise(
            entry,
            kind="node-lock-left-behind",
            subject=row.node,
            message=f"the node's lock {row.value[:200]!r} had no living holder",
            evidence={"value": row.value, "first_seen_at": row.first_seen_at.isoformat()},
            repair="taken off",
        )


def annotation_remove(api: ports.Api, *, node: str, value: str) -> bool:
    """Remove exactly this lock text, or nothing. False: another writer was first."""
    try:
        found = api.send(calls.node_get(name=node))
        if found.metadata.annotations.get(LOCK, "")[:LOCK_MAX] != value:
            return False
        api.send(
            calls.node_annotate(name=node, annotations={LOCK: None}, resource_version=found.metadata.resource_version)
        )
    except (errors.Conflict, errors.NotFound):
        return False
    except errors.ApiError as refusal:  # about this node alone
        log.warning("lock_not_taken_off", node=node, why=str(refusal))
        return False
    return True


def _holder(view: View, text: str) -> str:
    """uid of the live pod that the text names; empty for an ownerless, unreadable or unknown one."""
    try:
        lock = node_lock.decode(text)
    except WireError:
        return ""
    if not lock.owned:
        return ""
    uids = [row.uid for row in view.pods.values() if (row.namespace, row.name) == (lock.namespace, lock.name)]
    return uids[0] if uids else ""


def _names_a_missing_pod(api: ports.Api, text: str) -> bool:
    """Whether the text names a pod that the API server does not have, or has as finished."""
    try:
        lock = node_lock.decode(text)
    except WireError:
        return False
    if not lock.owned:
        return False
    try:
        pod = api.send(calls.pod_get(namespace=lock.namespace, name=lock.name))
    except errors.NotFound:
        return True
    return pod.status.phase in ("Succeeded", "Failed")
