"""Serves instances that an operator made: the kubelet says which, and it alone accounts for them.

Must not know: gRPC, pods, the scheduler. Source: HAMi v2.10.0 and NVIDIA's k8s-device-plugin, static MIG.
"""

from __future__ import annotations

from collections.abc import Sequence

from deviceplugin import board, grants, inventory, meters, preference, reach, replicas
from deviceplugin.refusals import Reason, Refusal
from hami_platform import logs

log = logs.get(__name__)


class StaticAllocations:
    """See kubelet.Allocations."""

    def __init__(self, shown: board.Board, reached: reach.Reach) -> None:
        self._shown = shown
        self._reach = reached

    def allocate(self, asked: Sequence[Sequence[str]]) -> tuple[grants.Grant, ...] | Refusal:
        """Exactly the instances that are asked for."""
        answers = []
        for ids in asked:
            answer = self._grant(ids)
            if isinstance(answer, Refusal):
                meters.ALLOCATIONS.labels(answer.reason.value).inc()
                log.warning("allocate_refused", reason=answer.reason.value, message=answer.message)
                return answer
            answers.append(answer)
        meters.ALLOCATIONS.labels("granted").inc(len(answers))
        return tuple(answers)

    def preferred(self, choices: Sequence[replicas.Choice]) -> tuple[tuple[str, ...], ...]:
        """Instances of as few cards as possible."""
        card_of = {uuid: card.uuid for uuid, (card, _) in self._there().items()}
        return tuple(preference.compact(choice, card_of) for choice in choices)

    def before_start(self, ids: Sequence[str]) -> Refusal | None:
        """They must still be there: the operator may have cut the card anew."""
        there = self._there()
        if missing := [one for one in ids if one not in there]:
            return Refusal(Reason.UNKNOWN_DEVICE, f"this node has no MIG instance {missing[0]}")
        return None

    def _grant(self, ids: Sequence[str]) -> grants.Grant | Refusal:
        there = self._there()
        for one in ids:
            if one not in there:
                return Refusal(Reason.UNKNOWN_DEVICE, f"this node has no MIG instance {one}")
        try:
            access = self._reach.to_instances([(there[one][0], there[one][1].instance) for one in ids])
        except reach.UnreachableError as error:
            return Refusal(Reason.HOST, str(error))
        log.info("allocated_instances", instances=",".join(ids))
        return grants.Grant().reaching(access)

    def _there(self) -> dict[str, tuple[inventory.Card, inventory.Partition]]:
        cards = self._shown.picture.cards
        return {one.instance.uuid: (card, one) for card in cards for one in card.partitions}
