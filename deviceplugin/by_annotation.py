"""Handing over with HAMi's scheduler: the pod's annotations are the record, the node lock the turn.

Rows are blanked in `vgpu-devices-to-allocate`; with the last one the pod's phase becomes
`success` and the node lock is released. Every write has a precondition, so that a pod of the same
name, or a lock that changed hands, is never touched.
Must not know: environment, mounts, gRPC. Source: HAMi v2.10.0, device plugin and node lock.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from deviceplugin import by_checkpoint, checkpoint, handover, outfit, rows
from deviceplugin.refusals import Reason, Refusal
from hami_platform import logs
from hami_platform.domain import errors as wire_errors
from hami_platform.domain.wire import mig_allocations, node_lock, pod_devices
from hami_platform.kube import api, calls, errors, objects

BIND_TIME = "hami.io/bind-time"
SUCCESS = "success"
FAILED = "failed"
TRIES = 5
"""Writes that met a newer object are made again from it, as often as HAMi does."""

log = logs.get(__name__)


class AnnotationHandover:
    """See Handover."""

    def __init__(self, place: handover.Place, kube: api.Api) -> None:
        self._place = place
        self._node = place.node
        self._reader = place.reader
        self._kube = kube

    def find(self, counts: Sequence[int]) -> tuple[rows.Row, ...] | Refusal:
        """See Handover. The holder of the node lock; without one, the only pod that can be meant."""
        node = self._reader.read(calls.node_get(name=self._node))
        text = node.metadata.annotations.get(node_lock.KEY)
        try:
            lock = node_lock.decode(text) if text is not None else None
        except wire_errors.WireError as error:
            return Refusal(Reason.LOCK, f"node {self._node}: {node_lock.KEY}: {error}")
        pods = self._reader.read(calls.pods(node=self._node).page()).items
        by_checkpoint.sweep(self._place.record, self._place.cards, pods)
        if lock and lock.owned:
            return self._of_holder(lock, pods, counts)
        return self._chosen([pod for pod in pods if self._waits(pod)], counts)

    def _chosen(self, waiting: Sequence[objects.Pod], counts: Sequence[int]) -> tuple[rows.Row, ...] | Refusal:
        return rows.choose(waiting, lambda _pod: frozenset(), self._place.resource, counts)

    def _of_holder(
        self, lock: node_lock.NodeLock, pods: Sequence[objects.Pod], counts: Sequence[int]
    ) -> tuple[rows.Row, ...] | Refusal:
        """The rows of the pod that the lock names; it fails when it has none left while it is being allocated."""
        holder = next((p for p in pods if lock.owned_by(p.metadata.namespace, p.metadata.name)), None)
        if holder is None:
            return Refusal(Reason.LOCK, self._elsewhere(lock))
        found = self._chosen([holder], counts) if self._waits(holder) else None
        if found is None or (isinstance(found, Refusal) and found.reason is Reason.NO_POD):
            return self._without_row(holder)
        return found

    def _elsewhere(self, lock: node_lock.NodeLock) -> str:
        """What is wrong with a holder that is not on this node."""
        holder = f"{lock.namespace}/{lock.name}"
        held = f"pod {holder} holds the lock of node {self._node}, but"
        try:
            pod = self._reader.read(calls.pod_get(namespace=lock.namespace, name=lock.name))
        except errors.NotFound:
            return f"{held} does not exist"
        return f"{held} is bound to {pod.spec.node_name}" if pod.spec.node_name else f"{held} is not bound yet"

    def _without_row(self, holder: objects.Pod) -> Refusal:
        """One that has everything only left its lock behind; one that waits for devices that nobody reserved fails."""
        named, phase = rows.named(holder), holder.metadata.annotations.get(rows.BIND_PHASE, "")
        if phase == rows.ALLOCATING and rows.alive(holder) and not rows.started(holder):
            return Refusal(Reason.NO_ROW, f"pod {named} is to be given devices, but none are reserved for it", holder)
        if phase == SUCCESS:
            self._release(holder)
        return Refusal(Reason.LOCK, f"pod {named} holds the lock of node {self._node}, but does not wait for devices")

    def commit(
        self, served: Sequence[rows.Row], instances: handover.Instances, asked: Sequence[Sequence[str]]
    ) -> Refusal | None:
        """See Handover. The local record is for restoring and comparing what was given, not for what comes next."""
        pod = served[0].pod
        try:
            by_checkpoint.remember(self._place.record, served, instances, asked)
            self._blank(served, instances)
        except (errors.KubeError, checkpoint.CheckpointError, rows.UnreadableRows) as error:
            return Refusal(Reason.API, f"pod {rows.named(pod)}: its rows cannot be marked as consumed: {error}", pod)
        if served[-1].last:
            self._release(pod)
        return None

    def abandon(self, pod: objects.Pod, message: str) -> None:
        """Mark the pod as failed, and let the node go to the next."""
        call = calls.pod_annotate(
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            uid=pod.metadata.uid,
            annotations={rows.BIND_PHASE: FAILED},
        )
        try:
            self._kube.send(call)
        except errors.KubeError as error:
            log.error("phase_not_written", pod=rows.named(pod), uid=pod.metadata.uid, error=str(error))
        self._release(pod)

    def _waits(self, pod: objects.Pod) -> bool:
        """A second container may come after an early `success`, hence both phases."""
        return BIND_TIME in pod.metadata.annotations and rows.waiting(pod, self._node, (rows.ALLOCATING, SUCCESS))

    def _blank(self, served: Sequence[rows.Row], instances: handover.Instances) -> None:
        """One patch for the rows, the instances, and the phase once nothing is left.

        The pod was read before its devices were made ready. If it changed since, it is read
        again; its rows must still be the same.
        """
        pod = served[0].pod
        for _ in range(TRIES):
            call = calls.pod_annotate(
                namespace=pod.metadata.namespace,
                name=pod.metadata.name,
                uid=pod.metadata.uid,
                resource_version=pod.metadata.resource_version,
                annotations=consumed(pod, served, instances),
            )
            try:
                self._kube.send(call)
            except errors.Conflict:
                pod = self._same(pod)
            else:
                return
        raise errors.ApiError(409, "Conflict", f"the pod changed {TRIES} times in a row")

    def _same(self, pod: objects.Pod) -> objects.Pod:
        now = self._reader.read(calls.pod_get(namespace=pod.metadata.namespace, name=pod.metadata.name))
        if now.metadata.uid != pod.metadata.uid:
            raise errors.NotFound(404, "NotFound", "the pod was replaced by another of its name")
        if rows.decoded(now) != rows.decoded(pod):
            raise errors.Conflict(409, "Conflict", "its allocation changed meanwhile")
        return now

    def _release(self, pod: objects.Pod) -> None:
        """Take the node lock off if it is this pod's. A lock that stays ages out, so failure is only logged."""
        try:
            for _ in range(TRIES):
                node = self._reader.read(calls.node_get(name=self._node))
                if not _held(node, pod):
                    return
                if self._unlocked(node):
                    return
        except errors.KubeError as error:
            log.error("lock_not_released", node=self._node, pod=rows.named(pod), error=str(error))
        else:
            log.error("lock_not_released", node=self._node, pod=rows.named(pod), error="the node kept changing")

    def _unlocked(self, node: objects.Node) -> bool:
        call = calls.node_annotate(
            name=self._node,
            annotations={node_lock.KEY: None},
            resource_version=node.metadata.resource_version,
        )
        try:
            self._kube.send(call)
        except errors.Conflict:
            return False
        return True


def consumed(pod: objects.Pod, served: Sequence[rows.Row], instances: handover.Instances) -> dict[str, str | None]:
    """The pod's annotations once these rows are consumed. Raises UnreadableRows.

    `success` comes with the last row in the same patch, so that nobody sees one without the other.
    """
    slots = {row.slot for row in served}
    remaining = tuple(() if slot in slots else row for slot, row in enumerate(rows.decoded(pod)))
    changes: dict[str, str | None] = {rows.TO_ALLOCATE: pod_devices.encode(remaining)}
    if not any(remaining):
        changes[rows.BIND_PHASE] = SUCCESS
    if instances:
        changes[outfit.MIG_ALLOCATIONS] = _with_runtime(pod, instances)
    return changes


def _with_runtime(pod: objects.Pod, instances: handover.Instances) -> str:
    """The reservations, with the ids of the instances that now exist."""
    reserved = mig_allocations.decode(pod.metadata.annotations.get(outfit.MIG_ALLOCATIONS, ""))
    return mig_allocations.encode(_realised(one, instances) for one in reserved)


def _realised(one: mig_allocations.Allocation, instances: handover.Instances) -> mig_allocations.Allocation:
    if (found := instances.get((one.container_index, one.device_index))) is None:
        return one
    made = found[1]
    runtime = mig_allocations.Runtime(made.uuid, made.gpu_instance_id, made.compute_instance_id)
    return dataclasses.replace(one, runtime=runtime)


def _held(node: objects.Node, pod: objects.Pod) -> bool:
    """An ownerless lock of an older writer is released too, as HAMi does; an unreadable one is a person's to repair."""
    text = node.metadata.annotations.get(node_lock.KEY)
    if text is None:
        return False
    try:
        lock = node_lock.decode(text)
    except wire_errors.WireError:
        return False
    return not lock.owned or lock.owned_by(pod.metadata.namespace, pod.metadata.name)
