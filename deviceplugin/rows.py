"""Which pod an Allocate call is for, and which rows of its allocation come next.

kubelet names no pod: the call is for the one pod of this node that is bound, has not started and
has rows left. Where that is not one pod, nothing is handed out, since a wrong guess would give a
container another one's cards and limits.
Must not know: gRPC, files, the API server. Rows are positions: init containers first, then apps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from deviceplugin import grants
from deviceplugin.refusals import Reason, Refusal
from hami_platform.domain import errors
from hami_platform.domain.vendors import nvidia
from hami_platform.domain.wire import pod_devices
from hami_platform.kube import objects

TO_ALLOCATE = nvidia.declare({}).to_allocate_key
BIND_PHASE = "hami.io/bind-phase"
ASSIGNED_NODE = "hami.io/vgpu-node"
ALLOCATING = "allocating"

Served = Callable[[objects.Pod], frozenset[str]]
"""Containers of a pod that have their devices already."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one container is to get.

    index: the container's position among init containers, then apps; slot: the row's place in the
    annotation, the same unless the writer dropped empty rows.
    """

    pod: objects.Pod
    slot: int
    index: int
    container: objects.Container
    devices: tuple[grants.Reserved, ...]
    last: bool
    """No row of this pod follows."""


class UnreadableRows(Exception):
    """The pod's allocation does not fit its containers or cannot be decoded; the message names the pod."""


def named(pod: objects.Pod) -> str:
    """`namespace/name`, for messages."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def containers(pod: objects.Pod) -> tuple[objects.Container, ...]:
    """All containers in row order."""
    return (*pod.spec.init_containers, *pod.spec.containers)


def started(pod: objects.Pod) -> bool:
    """Whether any container runs or ran: then all Allocate calls of the pod are over."""
    return any(
        status.state.running or status.state.terminated or status.last_state.terminated or status.restart_count
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )


def alive(pod: objects.Pod) -> bool:
    """Neither ended nor being deleted."""
    return pod.status.phase not in ("Succeeded", "Failed") and pod.metadata.deletion_timestamp is None


def waiting(pod: objects.Pod, node: str, phases: Collection[str] = (ALLOCATING,)) -> bool:
    """Bound to this node by the platform, and not started yet."""
    annotations = pod.metadata.annotations
    return (
        alive(pod)
        and not started(pod)
        and annotations.get(BIND_PHASE, "") in phases
        and annotations.get(ASSIGNED_NODE, node) == node
        and TO_ALLOCATE in annotations
    )


def decoded(pod: objects.Pod) -> pod_devices.Rows:
    """The rows still to allocate, as written. Raises UnreadableRows."""
    try:
        return pod_devices.decode(pod.metadata.annotations.get(TO_ALLOCATE, ""))
    except errors.WireError as error:
        raise UnreadableRows(f"pod {named(pod)}: {TO_ALLOCATE}: {error}") from error


def left(pod: objects.Pod, served: frozenset[str], resource: str) -> tuple[Row, ...]:
    """The pod's rows with devices whose containers have not been served. Raises UnreadableRows."""
    written = decoded(pod)
    places = _places(pod, written, resource)
    names = containers(pod)
    open_ = [slot for slot, row in enumerate(written) if row and names[places[slot]].name not in served]
    return tuple(
        Row(
            pod=pod,
            slot=slot,
            index=places[slot],
            container=names[places[slot]],
            devices=tuple(grants.Reserved(d.uuid, d.memory_mib, d.core_percent) for d in written[slot]),
            last=slot == open_[-1],
        )
        for slot in open_
    )


def _places(pod: objects.Pod, written: pod_devices.Rows, resource: str) -> Sequence[int]:
    """Which container each row is of. Raises UnreadableRows.

    HAMi v2.10.0 drops the rows of containers without devices, so rows that are too few are
    those of the containers that ask.
    """
    names = containers(pod)
    if pod_devices.align(written, len(names)) is not None:
        return range(len(written))
    asking = [n for n, container in enumerate(names) if resource in container.resources.limits]
    if len(written) < len(names) and not any(written[len(asking) :]) and len(written) >= len(asking):
        return asking
    raise UnreadableRows(
        f"pod {named(pod)}: {TO_ALLOCATE} has {len(written)} rows "
        f"for {len(names)} containers, of which {len(asking)} ask for devices"
    )


def choose(
    pods: Sequence[objects.Pod], served: Served, resource: str, counts: Sequence[int]
) -> tuple[Row, ...] | Refusal:
    """The rows of the one waiting pod that this call is for; counts: ids in each container request.

    Several waiting pods are told apart by how many devices come next; if that leaves more than
    one, or a pod cannot be read and so could be the one, nobody gets anything.
    """
    try:
        queues = [queue for pod in pods if (queue := left(pod, served(pod), resource))]
    except UnreadableRows as error:
        return Refusal(Reason.UNDECODABLE, str(error), pods[0] if len(pods) == 1 else None)
    if not queues:
        return Refusal(Reason.NO_POD, "no pod on this node waits for devices")
    fitting = [queue for queue in queues if _counts(queue, len(counts)) == list(counts)]
    if len(fitting) == 1:
        return fitting[0][: len(counts)]
    names = ", ".join(sorted(named(queue[0].pod) for queue in queues))
    if len(queues) > 1:
        return Refusal(Reason.AMBIGUOUS, f"several pods wait for devices on this node: {names}")
    return Refusal(Reason.COUNT_MISMATCH, _mismatch(queues[0], counts), queues[0][0].pod)


def stranger(pods: Iterable[objects.Pod], resource: str, counts: Sequence[int]) -> objects.Pod | None:
    """A pod that asks for the resource, was not bound by the platform, and may be the one that calls.

    kubelet has not yet said anything of it (only it writes conditions other than PodScheduled),
    and it asks for as many devices as the call.
    """
    for pod in pods:
        unmanaged = BIND_PHASE not in pod.metadata.annotations
        if unmanaged and alive(pod) and not _seen_by_kubelet(pod) and _asks(pod, resource, counts):
            return pod
    return None


def _counts(queue: Sequence[Row], first: int) -> list[int]:
    return [len(row.devices) for row in queue[:first]]


def _mismatch(queue: Sequence[Row], counts: Sequence[int]) -> str:
    return (
        f"device number not matched: pod {named(queue[0].pod)}, container {queue[0].container.name}: "
        f"kubelet asks for {'+'.join(map(str, counts))} devices, "
        f"reserved are {'+'.join(map(str, _counts(queue, len(counts))))}"
    )


def _seen_by_kubelet(pod: objects.Pod) -> bool:
    statuses = pod.status.container_statuses or pod.status.init_container_statuses
    return bool(statuses) or any(condition.type != "PodScheduled" for condition in pod.status.conditions)


def _asks(pod: objects.Pod, resource: str, counts: Sequence[int]) -> bool:
    wanted = {str(count) for count in counts}
    return any(str(container.resources.limits.get(resource)) in wanted for container in containers(pod))
