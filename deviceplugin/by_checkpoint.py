"""Handing over with our own scheduler: a local record, and no write to the API server.

The ledger lets one pod at a time onto a node, so the call is for the pod that has rows left
(design: Allocate). Must not know: environment, mounts, gRPC.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deviceplugin import checkpoint, handover, inventory, mig_made, rows
from deviceplugin.refusals import Reason, Refusal
from hami_platform import logs
from hami_platform.kube import calls, objects

log = logs.get(__name__)


class CheckpointHandover:
    """See Handover. Listing also forgets pods that are gone, with the MIG instances made for them."""

    def __init__(self, place: handover.Place) -> None:
        self._place = place

    def find(self, counts: Sequence[int]) -> tuple[rows.Row, ...] | Refusal:
        """See Handover. The list is a consistent one: it holds the pod that kubelet admits now."""
        place = self._place
        pods = place.reader.read(calls.pods(node=place.node).page()).items
        sweep(place.record, place.cards, pods)
        waiting = [pod for pod in pods if rows.waiting(pod, place.node)]
        found = rows.choose(waiting, lambda pod: place.record.served(pod.metadata.uid), place.resource, counts)
        if not isinstance(found, Refusal) and (other := rows.stranger(pods, place.resource, counts)):
            return Refusal(
                Reason.AMBIGUOUS,
                f"pods {rows.named(found[0].pod)} and {rows.named(other)} both wait for devices on this node, "
                "and the second was not placed by the platform",
            )
        return found

    def commit(
        self, served: Sequence[rows.Row], instances: handover.Instances, asked: Sequence[Sequence[str]]
    ) -> Refusal | None:
        """See Handover."""
        try:
            remember(self._place.record, served, instances, asked)
        except checkpoint.CheckpointError as error:
            return Refusal(Reason.HOST, str(error), served[0].pod)
        return None

    def abandon(self, pod: objects.Pod, message: str) -> None:
        """kubelet fails the pod, and a failed pod holds nothing: no write is needed."""


def remember(
    record: checkpoint.Checkpoint,
    served: Sequence[rows.Row],
    instances: handover.Instances,
    asked: Sequence[Sequence[str]],
) -> None:
    """Put these rows on record. Raises CheckpointError."""
    pod = served[0].pod.metadata
    given = [_given(row, instances, ids) for row, ids in zip(served, asked, strict=True)]
    record.add(pod.uid, pod.namespace, pod.name, given)


def _given(row: rows.Row, instances: handover.Instances, ids: Sequence[str]) -> checkpoint.Given:
    mig, uuids = [], []
    for number, device in enumerate(row.devices):
        if made := instances.get((row.index, number)):
            use, instance = made
            mig.append((device.uuid, use.profile, use.placement.start, use.placement.size))
            uuids.append(instance.uuid)
    cards = tuple(device.uuid for device in row.devices)
    return checkpoint.Given(row.container.name, cards, tuple(mig), ids=tuple(ids), instances=tuple(uuids))


def sweep(record: checkpoint.Checkpoint, cards: inventory.Inventory, pods: Iterable[objects.Pod]) -> None:
    """Forget pods that ended or no longer exist, once their MIG instances are destroyed.

    An instance that is still in use stays recorded, and is tried again at the next call, as is one that was begun for a
    call that never ended. The caller has the turn since before it listed: otherwise a pod that was served after the
    list would be forgotten.
    """
    existing = {pod.metadata.uid for pod in pods if pod.status.phase not in ("Succeeded", "Failed")}
    for place in sorted(record.begun):
        _dissolve(place, cards, "nobody")
    stuck = {uid for uid, entry in record.pods.items() if uid not in existing and not _dissolved(entry, cards)}
    try:
        record.keep(existing | stuck)
    except checkpoint.CheckpointError as error:
        log.error("checkpoint_not_written", error=str(error))


def _dissolved(entry: checkpoint.PodRecord, cards: inventory.Inventory) -> bool:
    pod = f"{entry.namespace}/{entry.name}"
    return all(_dissolve(place, cards, pod) for given in entry.given for place in given.mig)


def _dissolve(place: checkpoint.Placed, cards: inventory.Inventory, pod: str) -> bool:
    try:
        cards.dissolve(place[0], mig_made.use_of(place))
    except inventory.InventoryError as error:
        log.warning("mig_instance_kept", card=place[0], pod=pod, error=str(error))
        return False
    return True
