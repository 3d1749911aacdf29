"""Tells of findings where `kubectl describe` and dashboards look for what is wrong: events about the pod or the node.

Each finding is told once when it is raised, and once more when an open one was repaired. Losing an event costs nothing:
the finding stays.
"""

from __future__ import annotations

import secrets

from django.db.models import F, Q

from accounting import ledger
from accounting.models import Finding
from hami_platform import logs
from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors, objects

log = logs.get(__name__)

AT_ONCE = 50
COMPONENT = "hami-platform"
NODE_NAMESPACE = "default"
"""Where events about things without a namespace go. Source: Kubernetes client-go, tools/events."""


def findings_tell(api: ports.Api) -> int:
    """Write the events that are due; how many findings were told of. Raises kube errors that are no answer."""
    news = Q(told_at=None) | Q(repaired_at__gt=F("told_at"))
    due = list(Finding.objects.filter(news, cluster=ledger.cluster_id()).order_by("pk")[:AT_ONCE])
    for one in due:
        call = _event(one)
        try:
            if call is not None:
                api.send(call)
        except errors.ApiError as refusal:  # its namespace is gone, or we may not: the next finding may do better
            log.warning("finding_event_lost", kind=one.kind, subject=one.subject, why=str(refusal))
        Finding.objects.filter(pk=one.pk).update(told_at=ledger.database_time())
    return len(due)


def _event(one: Finding) -> calls.KubeCall[objects.Object] | None:
    """None for a finding about neither a pod nor a node."""
    namespace, slash, name = one.subject.partition("/")
    uid = str(one.evidence.get("uid") or "")
    if slash and uid:
        return _call(one, "Pod", namespace, name, uid)
    node = str(one.evidence.get("node") or one.subject)
    if _NODE_KINDS.intersection({one.kind}):
        return _call(one, "Node", NODE_NAMESPACE, node, node)
    return None


_NODE_KINDS = frozenset({"node-lock-stuck", "node-lock-left-behind", "unreadable-registration", "device-on-two-nodes"})


def _call(one: Finding, kind: str, namespace: str, name: str, uid: str) -> calls.KubeCall[objects.Object]:
    mended = one.repaired_at is not None
    message = f"{one.kind}: {one.message}" + (f" ({one.repair})" if mended else "")
    return calls.event_create(
        namespace=namespace,
        name=f"{name[:230]}.{secrets.token_hex(8)}",
        pod=name,
        uid=uid,
        kind=kind,
        reason="FindingRepaired" if mended else "Finding",
        message=message,
        type_="Normal" if mended else "Warning",
        component=COMPONENT,
        at=one.last_seen_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
