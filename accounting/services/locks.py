"""The lock of a node: which pod may be between bind and allocation there. One ledger row, whichever protocol the node
speaks.

Where our agent runs the row is the lock. Where HAMi's plugin runs the node annotation is, and the row mirrors it.
"""

from __future__ import annotations

from accounting import ledger, live_view
from accounting.ledger import Entry
from accounting.models import NodeLock, Pod
from hami_platform.domain.vendors.base import SHARED_LOCK, DeviceConfig
from hami_platform.domain.view import View

ROW, ANNOTATION, NONE = "row", "annotation", "none"


def lock_mode(view: View, node: str) -> str:
    """How a node is locked: by the row where our agent runs, else by HAMi's annotation."""
    row = view.nodes.get(node)
    return ROW if row is not None and row.agent else ANNOTATION


def lock_of(view: View, node: str, uid: str, config: DeviceConfig) -> tuple[str, str]:
    """(mode, annotation) of the lock that a pod's bind needs; NONE where its vendors' plugins need none.

    Where several vendors are asked the shared annotation covers them all.
    """
    row = view.pod(uid)
    words = row.request.vendors if row is not None else ()
    keys = {vendor.lock for vendor in config.vendors if vendor.word in words} if words else {SHARED_LOCK}
    if not any(keys):
        return NONE, ""
    return lock_mode(view, node), SHARED_LOCK if SHARED_LOCK in keys else min(filter(None, keys))


def lock_take(entry: Entry, *, node: str, pod: Pod, mode: str, value: str = "") -> str:
    """Take the lock for the pod; empty, or the uid of the pod that has it. Re-entrant. Call under the Clock.

    A lock is never handed over while its holder is alive and unallocated (D8): who ends or starts drops it. A free one
    costs no query: what the View says under the Clock is so.
    """
    if entry.untouched and live_view.live().refresh().locks.get(node) is None:
        return _taken(entry, node, pod, mode, value)
    held = NodeLock.objects.filter(cluster=ledger.cluster_id(), node=node).first()
    others = held is not None and held.pod_uid not in ("", pod.uid)
    if held is not None and others and not (mode == ANNOTATION == held.mode):
        return held.pod_uid  # who has taken the annotation proves that a row that mirrors it is out of date
    if held is not None and held.pod_uid == pod.uid and held.value == value:
        return ""
    if held is not None:
        held.delete()
    return _taken(entry, node, pod, mode, value)


def _taken(entry: Entry, node: str, pod: Pod, mode: str, value: str) -> str:
    cluster, at = ledger.cluster_id(), entry.at
    entry.insert([NodeLock(cluster_id=cluster, node=node, pod_uid=pod.uid, mode=mode, value=value, first_seen_at=at)])
    entry.record("lock", node, holder=pod.uid, mode=mode)
    return ""


def lock_value(*, node: str, uid: str) -> str:
    """Text of the annotation lock that this pod has taken on the node; empty: none that we know of.

    The text alone names a pod, and pods of one name follow each other.
    """
    mine = NodeLock.objects.filter(cluster=ledger.cluster_id(), node=node, pod_uid=uid, mode=ANNOTATION)
    return mine.values_list("value", flat=True).first() or ""
