"""Releasing a pod's shares by hand, with a reason: the last resort when the ledger counts what nobody uses."""

from __future__ import annotations

from typing import Any

from accounting import ledger
from accounting.ledger import Entry
from accounting.models import Pod, PodState
from accounting.services import edits, errors, findings, pod_rows, usage
from hami_platform.domain.sentences import phrase

KIND = "released-by-hand"


def pod_release(*, pod_id: int, reason: str, actor: str = "", force: bool = False) -> Pod:
    """Give back what an unbound pod holds: it waits and may ask again; a claim whose pod was never seen ends.

    A pod that is being bound is refused: the answer of the API server decides. One that is bound still uses its
    devices, so its release needs `force`, ends its accounting and raises a Finding. Raises InvalidInput.
    """
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="pod_release", actor=actor) as entry:
        pod = _holding(entry, pod_id)
        _refuse(pod, force)
        if pod.state in pod_rows.ON_NODE:
            _end_bound(entry, pod, reason)
        elif pod.uid:
            pod_rows.pod_unplace(entry, pod, state=PodState.WAITING)
        else:
            pod_rows.pod_end(entry, pod)
        _say_why(entry, pod, reason)
    return pod


def _holding(entry: Entry, pod_id: int) -> Pod:
    pod = Pod.objects.filter(cluster=entry.clock.cluster_id, pk=pod_id).first()
    if pod is None or pod.state == PodState.ENDED:
        raise errors.InvalidInput("pod", phrase("has ended and holds nothing"))
    return pod


def _refuse(pod: Pod, force: bool) -> None:
    if pod.state == PodState.WAITING:
        raise errors.InvalidInput("pod", phrase("is waiting and holds nothing"))
    if pod.state == PodState.BINDING:
        raise errors.InvalidInput("pod", phrase("is being bound: wait for the API server's answer"))
    if pod.state in pod_rows.ON_NODE and not force:
        raise errors.InvalidInput(
            "force",
            phrase(
                "%(pod)s is %(state)s on %(node)s: delete the pod instead, or confirm by force",
                pod=str(pod),
                state=pod.state,
                node=pod.node,
            ),
        )


def _end_bound(entry: Entry, pod: Pod, reason: str) -> None:
    evidence: dict[str, Any] = {
        "state": pod.state,
        "node": pod.node,
        "uid": pod.uid,
        "actor": entry.actor,
        "reason": reason,
    }
    evidence["shares"] = list(pod.shares.values("container", "vendor", "uuid", "memory_mib", "core_percent"))
    message = f"{pod} was {pod.state} on {pod.node} when its shares were released by hand; its devices may be over-used"
    pod_rows.pod_end(entry, pod)
    usage.intervals_close(entry, pod)
    findings.finding_raise(entry, kind=KIND, subject=str(pod), message=message[:1000], evidence=evidence)


def _say_why(entry: Entry, pod: Pod, reason: str) -> None:
    """The reason belongs to the pod's own journal row: one change, one row."""
    for row in entry.rows:
        if row.kind == "pod" and row.key == str(pod.pk):
            row.values["reason"] = reason
