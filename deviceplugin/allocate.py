"""Allocate: find the pod, make its devices ready, remember, answer. One call at a time.

Must not know: gRPC, and which way of remembering is in use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from deviceplugin import grants, handover, meters, outfit, rows
from deviceplugin.refusals import Reason, Refusal
from hami_platform import logs
from hami_platform.kube import errors

log = logs.get(__name__)


class Allocator:
    """Serves kubelet's calls. `done` is told after each answer, so that completion travels at once.

    turn: whoever hands out or takes back holds it, from reading the pods to the record.
    """

    def __init__(
        self,
        records: handover.Handover,
        outfitter: outfit.Outfitter,
        turn: threading.Lock,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        self._records = records
        self._outfitter = outfitter
        self._done = done
        self._turn = turn

    def allocate(self, counts: Sequence[int]) -> tuple[grants.Grant, ...] | Refusal:
        """One grant for each container request; counts: how many ids kubelet passed in each."""
        if not counts:
            return ()
        with self._turn, meters.ALLOCATE_S.time():
            answer = self._serve(counts)
        if isinstance(answer, Refusal):
            meters.ALLOCATIONS.labels(answer.reason.value).inc()
            log.warning("allocate_refused", reason=answer.reason.value, message=answer.message, **_facts(answer))
            return answer
        meters.ALLOCATIONS.labels("granted").inc()
        self._done()
        return answer

    def wanted(self, counts: Sequence[int]) -> tuple[tuple[str, ...], ...]:
        """The cards reserved for the call that kubelet is about to make; empty where that is unknown."""
        with self._turn:
            try:
                found = self._records.find(counts)
            except errors.KubeError:
                return ()
        if isinstance(found, Refusal):
            return ()
        return tuple(tuple(device.uuid for device in row.devices) for row in found)

    def _serve(self, counts: Sequence[int]) -> tuple[grants.Grant, ...] | Refusal:
        try:
            found = self._records.find(counts)
        except errors.KubeError as error:
            return Refusal(Reason.API, f"the pods of this node cannot be read: {error}")
        answer = found if isinstance(found, Refusal) else self._hand_over(found)
        if isinstance(answer, Refusal) and answer.pod:
            self._records.abandon(answer.pod, answer.message)
        return answer

    def _hand_over(self, found: tuple[rows.Row, ...]) -> tuple[grants.Grant, ...] | Refusal:
        made = self._outfitter.outfit(found)
        if isinstance(made, Refusal):
            return made
        if refusal := self._records.commit(found, made.instances):
            self._outfitter.undo(made.instances, found)
            return refusal
        pod = found[0].pod.metadata
        for row in found:
            cards = ",".join(device.uuid for device in row.devices)
            log.info("allocated", pod=rows.named(row.pod), uid=pod.uid, container=row.container.name, cards=cards)
        return made.grants


def _facts(refusal: Refusal) -> dict[str, str]:
    return {"pod": rows.named(refusal.pod), "uid": refusal.pod.metadata.uid} if refusal.pod else {}
