"""The pods of this node, and what each of their containers is entitled to: what the monitor holds regions against.

Followed by a watch, so that a container's figures end with it and the API server is not asked every few seconds. While
it does not answer, the last known pods stay. Must not know: regions, files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from deviceplugin import checkpoint, rows
from hami_platform import logs
from hami_platform.domain import errors
from hami_platform.domain.vendors import nvidia
from hami_platform.domain.wire import mig_allocations, pod_devices
from hami_platform.kube import api, calls, feed, listwatch, objects

ALLOCATED = nvidia.declare({}).allocated_key
MIG_ALLOCATIONS = "hami.io/vgpu-mig-allocations"
PRIORITY = "CUDA_TASK_PRIORITY"
DEFAULT_PRIORITY = 1
"""The library's own, for containers that were given none."""
MIB = 1 << 20
_SOURCE = "pods"

log = logs.get(__name__)


class PodsHere:
    """Pods by uid. `known` belongs to one thread."""

    def __init__(self, node: str, kube: api.Api) -> None:
        self._feed = feed.Feed({_SOURCE: listwatch.Reflector(kube, calls.pods(node=node))})
        self._pods: dict[str, objects.Pod] | None = None
        self._started = False
        self._failing = False

    def known(self) -> Mapping[str, objects.Pod] | None:
        """What is known now, without waiting; None before the first answer."""
        if not self._started:
            self._started = True
            self._feed.__enter__()
        for part in self._feed.take(wait_s=0):
            self._take(part.batch)
        return self._pods

    def close(self) -> None:
        """End the watch."""
        if self._started:
            self._feed.close()

    def _take(self, batch: feed.Batch) -> None:
        if isinstance(batch, listwatch.Failed):
            if not self._failing:
                log.warning("pods_not_followed", error=str(batch.error))
            self._failing = True
            return
        self._failing = False
        if isinstance(batch, listwatch.Listed):
            self._pods = {pod.metadata.uid: pod for pod in batch.items}
        else:
            for event in batch.events:
                self._change(event)

    def _change(self, event: listwatch.Event[objects.Pod]) -> None:
        pods = self._pods if self._pods is not None else {}
        if event.deleted:
            pods.pop(event.object.metadata.uid, None)
        else:
            pods[event.object.metadata.uid] = event.object


@dataclass(frozen=True, slots=True)
class Entitlement:
    """What one container may claim in its region. limits_bytes: by card, where its row is known; 0 is no limit."""

    cards: frozenset[str]
    priority: int = DEFAULT_PRIORITY
    limits_bytes: Mapping[str, int] = field(default_factory=dict)


def running(pod: objects.Pod) -> dict[str, objects.Container]:
    """Its containers that run now, init containers and sidecars too, by name."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    names = {status.name for status in statuses if status.state.running}
    return {one.name: one for one in rows.containers(pod) if one.name in names}


def entitlement(pod: objects.Pod, container: objects.Container, record: checkpoint.PodRecord | None) -> Entitlement:
    """By the pod's allocation as the scheduler wrote it, and by the record of what this agent handed out."""
    written = _written(pod)
    cards = {row.uuid for rows_ in written for row in rows_}
    cards |= {uuid for given in (record.given if record else ()) for uuid in given.devices}
    names = [one.name for one in rows.containers(pod)]
    own = pod_devices.align(written, len(names))
    mine = own[names.index(container.name)] if own else ()
    times = Counter(row.uuid for row in mine)  # of a card that is given twice the limit is not one number
    limits = {row.uuid: row.memory_mib * MIB for row in mine if times[row.uuid] == 1}
    return Entitlement(frozenset(cards), declared_priority(container), limits)


def declared_priority(container: objects.Container) -> int:
    """What the pod says the container's priority is, as the library reads it."""
    for variable in container.env:
        if variable.name == PRIORITY:
            try:
                return int(variable.value)
            except ValueError:
                return DEFAULT_PRIORITY
    return DEFAULT_PRIORITY


def instances(pod: objects.Pod) -> list[tuple[str, mig_allocations.Allocation]]:
    """Its MIG instances with the container that each is for; none when the annotation cannot be read."""
    text = pod.metadata.annotations.get(MIG_ALLOCATIONS, "")
    names = [one.name for one in rows.containers(pod)]
    try:
        found = mig_allocations.decode(text)
    except errors.WireError:
        return []
    return [(names[one.container_index], one) for one in found if one.container_index < len(names)]


def _written(pod: objects.Pod) -> pod_devices.Rows:
    try:
        found = pod_devices.decode(pod.metadata.annotations.get(ALLOCATED, ""))
    except errors.WireError:
        return ()
    return tuple(tuple(row for row in row_ if row.vendor == nvidia.WORD) for row_ in found)
