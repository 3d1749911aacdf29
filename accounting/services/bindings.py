"""`/bind`, the ledger's side: what may be bound where, and what each answer of the API server means for what is held.

The caller (scheduler_ext.binder) does the Kubernetes calls, between `binding_begin` and one of the other functions;
it holds no database connection meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from accounting import ledger, live_view
from accounting.ledger import Entry
from accounting.models import Pod, PodState
from accounting.services import claims, findings, locks, placements, pod_rows, wire_texts
from hami_platform.domain import place
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.wire import pod_request


@dataclass(frozen=True, slots=True)
class BindingPlan:
    """What the Binding must carry. attempt numbers the tries of one pod; later answers to older tries change
    nothing. joined: another process's try may still be under way."""

    uid: str
    namespace: str
    name: str
    node: str
    attempt: int
    annotations: dict[str, str]
    joined: bool = False


@dataclass(frozen=True, slots=True)
class BindRefused:
    """Why not. retry: the node's lock is taken (by `holder`), so waiting may help. done: the pod is on that node
    already."""

    message: str
    retry: bool = False
    done: bool = False
    holder: str = ""


def binding_begin(
    *, uid: str, namespace: str, name: str, node: str, mode: str, lock_value: str = "", config: DeviceConfig
) -> BindingPlan | BindRefused:
    """Take the node's lock and put the pod into `binding`, if it is reserved there (or can be again after its lease
    ran out).

    Raises ledger.LedgerUnavailable.
    """
    with live_view.deciding(cause="binding_begin", gather=True, first=[pod_rows.asked(uid)]) as (entry, view):
        if not view.ready:
            return BindRefused(placements.NOT_READY)
        pod = pod_rows.by_uid(entry, uid)
        refused = _refused(pod, namespace, name, node)
        if refused is not None or pod is None:
            return refused or BindRefused(f"no reservation for pod uid {uid}")
        if pod.state == PodState.CLAIMED and not _taken_again(entry, pod, node, config):
            return BindRefused(f"the reservation on node {node} lapsed and the devices are taken")
        if pod.state == PodState.RESERVED and not _still_fits(pod):
            pod_rows.pod_unplace(entry, pod)
            return BindRefused(f"the devices reserved on node {node} are over-used by others")
        joined = pod.state == PodState.BINDING
        free = mode == locks.NONE
        holder = "" if free else locks.lock_take(entry, node=node, pod=pod, mode=mode, value=lock_value)
        if holder:
            return BindRefused(
                f"node {node} is locked by pod uid {holder}: node lock contention", retry=True, holder=holder
            )
        pod_rows.pod_move(
            entry, pod, PodState.BINDING, bind_attempt=pod.bind_attempt + 1, lock_mode=mode, lease_until=None
        )
        return BindingPlan(uid, pod.namespace, pod.name, node, pod.bind_attempt, _texts(pod), joined)


def binding_current(plan: BindingPlan) -> bool:
    """Whether this try is still the pod's last one, and undecided: another Binding may be sent for it only then. Ask
    after the pod's resourceVersion was read: who takes over changes that. Raises ledger.LedgerUnavailable."""
    row = live_view.live().refresh().pod(plan.uid)
    return row is not None and (row.state, row.bind_attempt) == (PodState.BINDING, plan.attempt)


def binding_bound(*, uid: str, node: str) -> bool:
    """The API server has carried a Binding of the pod to this node out. False: the ledger has planned something else
    meanwhile; what the pod was given must be read from the pod itself."""
    with ledger.transaction(cause="binding_bound", gather=True, first=[pod_rows.asked(uid)]) as entry:
        pod = pod_rows.by_uid(entry, uid)
        if pod is None or pod.state != PodState.BINDING or pod.node != node:
            return False
        pod_put_on(entry, pod, node)
        return True


def pod_put_on(entry: Entry, pod: Pod, node: str, **columns: object) -> None:
    """The pod is on this node now, by whatever way. Call under the Clock."""
    if pod.node != node:
        findings.finding_raise(
            entry,
            kind="bound-elsewhere",
            subject=f"{pod.namespace}/{pod.name}",
            message=f"planned for node {pod.node or '-'}, bound to {node}",
            evidence={"uid": pod.uid},
        )
        pod_rows.lock_drop(entry, pod)
    pod_rows.pod_move(entry, pod, PodState.BOUND, node=node, lease_until=None, expired_node="", **columns)


def binding_ended(*, uid: str) -> None:
    """The pod is gone, being deleted, or another pod has its name: it holds nothing."""
    with ledger.transaction(cause="binding_ended", first=[pod_rows.asked(uid)]) as entry:
        pod = pod_rows.by_uid(entry, uid)
        if pod is not None and pod.state in pod_rows.UNBOUND:
            pod_rows.pod_end(entry, pod)


def binding_returned(*, uid: str, attempt: int) -> bool:
    """The pod is certainly not bound and will not be by this attempt nor an earlier one: back to holding its claim
    alone, once. False: a later attempt decides."""

    with ledger.transaction(cause="binding_returned", first=[pod_rows.asked(uid)]) as entry:
        pod = pod_rows.by_uid(entry, uid)
        if pod is None or (pod.state, pod.bind_attempt) != (PodState.BINDING, attempt):
            return False
        pod_rows.pod_unplace(entry, pod)
        return True


def _refused(pod: Pod | None, namespace: str, name: str, node: str) -> BindRefused | None:
    if pod is None or pod.state in (PodState.WAITING, PodState.ENDED):
        return BindRefused("no reservation for this pod")
    if (pod.namespace, pod.name) != (namespace, name):
        return BindRefused(f"pod uid {pod.uid} is {pod.namespace}/{pod.name}, not {namespace}/{name}")
    if pod.state in pod_rows.ON_NODE:
        return BindRefused(f"the pod is on node {pod.node} already", done=pod.node == node)
    planned = pod.expired_node if pod.state == PodState.CLAIMED else pod.node
    if planned != node:
        return BindRefused(f"reserved on node {planned}, not {node}" if planned else "no reservation for this pod")
    return None


def _taken_again(entry: Entry, pod: Pod, node: str, config: DeviceConfig) -> bool:
    """After the reservation's lease: the same node, if it and the quota still allow."""
    view = live_view.live().refresh()
    request: PodRequest = pod_request.decode(pod.request)
    decision = place.place(
        view.states,
        [node],
        request,
        defaults=placements.defaults(),
        strategies=placements.strategies(),
        headroom=claims.with_limits_counted(view, pod.namespace, without=pod.pk),
    )
    if decision.placement is None:
        return False
    placements.reserve(entry, pod, decision.placement, request, config)
    return True


def _still_fits(pod: Pod) -> bool:
    """Whether no device of a reservation holds more than it has. It was checked when it was made; since then a pod may
    have come past us, a person may hold a part, or a restored ledger may have learned what runs there."""
    view = live_view.live().refresh()
    state, row = view.states.get(pod.node), view.pods.get(pod.pk)
    if state is None or row is None:
        return False
    return not any(one.over_used for one in state.devices if one.device.key in row.held)


def _texts(pod: Pod) -> dict[str, str]:
    return {key: text for key, text in pod.wire.items() if isinstance(text, str)} | {wire_texts.NODE: pod.node}
