"""The few ways in which a pod's row moves. Called inside a ledger transaction by the services that decide the move."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from django.db import connection

from accounting import ledger, loading, statements
from accounting.ledger import Entry
from accounting.models import Namespace, NodeLock, Pod, PodState, Share
from accounting.services import lock_meters
from hami_platform import env
from hami_platform.domain import devices
from hami_platform.domain.quota import Charge
from hami_platform.domain.wire import pod_request

UNBOUND = frozenset({PodState.WAITING, PodState.CLAIMED, PodState.RESERVED, PodState.BINDING})
ON_NODE = frozenset({PodState.BOUND, PodState.RUNNING, PodState.RELEASING})


COLUMNS = tuple(one.attname for one in Pod._meta.concrete_fields)
_BY_UID = statements.Query(
    lambda cluster, uid: Pod.objects.filter(cluster=cluster, uid=uid).order_by().values_list(*COLUMNS)
)


def asked(uid: str) -> statements.Asked:
    """The question that `by_uid` asks."""
    return _BY_UID.asked(ledger.cluster_id(), uid)


def by_uid(entry: Entry, uid: str) -> Pod | None:
    """The row of this pod, ended ones too."""
    rows = entry.answer(asked(uid))
    return Pod.from_db(connection.alias, COLUMNS, rows[0]) if rows else None


def pod_move(entry: Entry, pod: Pod, state: str, **columns: Any) -> None:
    """Put the pod in a state, with other columns, and journal it."""
    if pod.state != state:
        columns["state_at"] = entry.at
    pod.state = state
    for name, value in columns.items():
        setattr(pod, name, value)
    entry.save(pod, ("state", *columns))
    entry.record(
        "pod",
        pod.pk,
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        state=state,
        node=pod.node,
        **{name: columns[name] for name in ("gated", "suspended", "bind_attempt") if name in columns},
    )


def pod_end(entry: Entry, pod: Pod) -> None:
    """The pod holds nothing any more, for good. Its shares stay as a record; its node's lock falls."""
    lock_drop(entry, pod)
    pod_move(entry, pod, PodState.ENDED, ended_at=entry.at, lease_until=None)


def pod_unplace(entry: Entry, pod: Pod, *, state: str = PodState.CLAIMED, **columns: Any) -> None:
    """Back to holding the claim alone: no device, no node, no lock."""
    lock_drop(entry, pod)
    Share.objects.filter(pod=pod).delete()
    pod_move(entry, pod, state, node="", wire={}, lease_until=None, aligned=True, **columns)


def pod_create(
    entry: Entry,
    *,
    cluster: int,
    state: str,
    request: Any,
    charges: Iterable[Charge],
    namespace: str,
    known: Container[str] = (),
    **columns: Any,
) -> Pod:
    """A new row for a claim or a seen pod; its namespace gets a row with the default mode if it has none. known:
    namespaces that certainly have one."""
    if namespace not in known:
        namespace_ensure(entry, cluster=cluster, name=namespace)
    pod = Pod(
        cluster_id=cluster,
        namespace=namespace,
        state=state,
        state_at=entry.at,
        request=pod_request.encode(request),
        claim_charges=[loading.claim_charge_json(charge) for charge in charges],
        **columns,
    )
    statements.insert(pod)
    entry.record("pod", pod.pk, uid=pod.uid, namespace=namespace, name=pod.name, state=state, claim=pod.claim_id)
    return pod


def shares_write(entry: Entry, pod: Pod, shares: Sequence[devices.Share], *, had_none: bool = False) -> None:
    """The pod's shares are these and no others. had_none: it certainly has no others yet."""
    if not had_none:
        Share.objects.filter(pod=pod).delete()
    rows = [
        Share(
            pod=pod,
            container_index=one.container_index,
            container=one.container,
            kind=one.kind.value,
            vendor=one.vendor,
            uuid=one.uuid,
            model=one.model,
            memory_mib=one.memory_mib,
            core_percent=one.core_percent,
            mig_profile=one.mig.profile if one.mig else "",
            mig_start=one.mig.placement.start if one.mig else None,
            mig_size=one.mig.placement.size if one.mig else None,
        )
        for one in shares
    ]
    entry.insert(rows)


def namespace_ensure(entry: Entry, *, cluster: int, name: str) -> None:
    """Give an unknown namespace its row."""
    if not Namespace.objects.filter(cluster_id=cluster, name=name).exists():
        row = Namespace(cluster_id=cluster, name=name, mode=env.current().default_namespace_mode)
        row._change_reason = "first pod with devices seen"  # type: ignore[attr-defined]  # simple-history's own hook
        row.save()
        entry.record("namespace", name, mode=row.mode)


_LOCKS_HELD = statements.Query(
    lambda cluster, uid: (
        NodeLock.objects.filter(cluster=cluster, pod_uid=uid, mode="row")
        .order_by()
        .values_list("pk", "node", "first_seen_at")
    )
)


def locks_asked(uid: str) -> statements.Asked:
    """The question that `lock_drop` asks."""
    return _LOCKS_HELD.asked(ledger.cluster_id(), uid)


def lock_drop(entry: Entry, pod: Pod) -> None:
    """Free the node lock this pod holds in the ledger. A row that mirrors an annotation falls with the annotation."""
    if not pod.uid:
        return
    dropped = {row.key for row in entry.rows if row.kind == "lock" and row.values.get("freed_by") == pod.uid}
    for pk, node, since in entry.answer(locks_asked(pod.uid)):
        if node in dropped:
            continue  # its deletion may be still to be written
        entry.delete(NodeLock(pk=pk))
        entry.record("lock", node, freed_by=pod.uid)
        lock_meters.fell(entry, mode="row", since=since)
