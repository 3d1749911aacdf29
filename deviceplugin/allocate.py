"""Allocate: find the pod, make its devices ready, remember, answer. One call at a time.

Must not know: gRPC, and which way of remembering is in use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence

from deviceplugin import align, board, grants, handover, meters, outfit, preference, replicas, restore, rows
from deviceplugin.refusals import Reason, Refusal
from hami_platform import logs
from hami_platform.kube import errors

Ids = Sequence[str]

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
        *,
        shown: board.Board,
        aligner: align.Aligner,
        restorer: restore.Restorer,
    ) -> None:
        self._records = records
        self._outfitter = outfitter
        self._done = done
        self._turn = turn
        self._shown = shown
        self._aligner = aligner
        self._restorer = restorer

    def allocate(self, asked: Sequence[Ids]) -> tuple[grants.Grant, ...] | Refusal:
        """One grant for each container request; asked: the ids that kubelet passed in each."""
        if not asked:
            return ()
        with self._turn, meters.ALLOCATE_S.time():
            answer = self._serve(asked)
        if isinstance(answer, Refusal):
            meters.ALLOCATIONS.labels(answer.reason.value).inc()
            log.warning("allocate_refused", reason=answer.reason.value, message=answer.message, **_facts(answer))
            return answer
        meters.ALLOCATIONS.labels("granted").inc()
        self._done()
        return answer

    def preferred(self, choices: Sequence[replicas.Choice]) -> tuple[tuple[str, ...], ...] | Refusal:
        """Replicas of the reserved cards; of cards that go well together where nothing is reserved.

        Empty where kubelet offers no replica of a reserved card. Refused for a pod that insists on its alignment.
        """
        cards = self._shown.picture.cards
        uuids = frozenset(card.uuid for card in cards)
        offers = [frozenset(replicas.physical(one, uuids) for one in choice.available) for choice in choices]
        with self._turn:
            found = self._wanted([choice.size for choice in choices], offers)
        if isinstance(found, Refusal):
            if found.reason is Reason.NUMA:
                return found
            return tuple(preference.closest(choice, cards) for choice in choices)
        return tuple(
            replicas.preferred([d.uuid for d in row.devices], choice.available, choice.must, choice.size, uuids)
            for row, choice in zip(found, choices, strict=True)
        )

    def before_start(self, ids: Ids) -> Refusal | None:
        """Make sure that what the container with these ids was given is still there."""
        with self._turn:
            return self._restorer.one(ids)

    def _wanted(self, counts: Sequence[int], offers: Sequence[Collection[str]]) -> tuple[rows.Row, ...] | Refusal:
        try:
            return self._aligned(counts, offers)
        except errors.KubeError as error:
            return Refusal(Reason.API, f"the pods of this node cannot be read: {error}")

    def _aligned(self, counts: Sequence[int], offers: Sequence[Collection[str]]) -> tuple[rows.Row, ...] | Refusal:
        """The rows of the call, moved to cards on offer if their pod asks for it. Raises KubeError."""
        found = self._records.find(counts)
        if isinstance(found, Refusal):
            return found
        moved = [self._aligner.align(row, offer) for row, offer in zip(found, offers, strict=True)]
        if refusal := next((one for one in moved if isinstance(one, Refusal)), None):
            return refusal
        return self._records.find(counts) if any(moved) else found

    def _serve(self, asked: Sequence[Ids]) -> tuple[grants.Grant, ...] | Refusal:
        uuids = frozenset(card.uuid for card in self._shown.picture.cards)
        offers = [frozenset(replicas.physical(one, uuids) for one in ids) for ids in asked]
        found = self._wanted([len(ids) for ids in asked], offers)
        answer = found if isinstance(found, Refusal) else self._hand_over(found, asked)
        if isinstance(answer, Refusal) and answer.pod:
            self._records.abandon(answer.pod, answer.message)
        return answer

    def _hand_over(self, found: tuple[rows.Row, ...], asked: Sequence[Ids]) -> tuple[grants.Grant, ...] | Refusal:
        made = self._outfitter.outfit(found)
        if isinstance(made, Refusal):
            return made
        if refusal := self._records.commit(found, made.instances, asked):
            self._outfitter.undo(made.instances, found)
            return refusal
        pod = found[0].pod.metadata
        for row in found:
            cards = ",".join(device.uuid for device in row.devices)
            log.info("allocated", pod=rows.named(row.pod), uid=pod.uid, container=row.container.name, cards=cards)
        return made.grants


def _facts(refusal: Refusal) -> dict[str, str]:
    return {"pod": rows.named(refusal.pod), "uid": refusal.pod.metadata.uid} if refusal.pod else {}
