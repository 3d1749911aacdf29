"""The one sentence that says why a pod waits, with its numbers: the same on a page, in REST, on the command line and in
an event.

Reads a finished decision and the arithmetic of the node on which the least is missing. Takes no decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hami_platform.domain import place, quota
from hami_platform.domain.arithmetic import Card, NodeLine
from hami_platform.domain.reasons import Reason
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.sentences import Sentence, Value, phrase


def of_limit(excess: quota.Excess) -> Sentence:
    """What a limit says to the pod."""
    values: dict[str, Value] = {"rule": excess.rule, "used": excess.used, "limit": excess.limit, "asked": excess.asked}
    return _LIMITS[excess.resource](values)


_LIMITS: Mapping[str, Callable[[Mapping[str, Value]], Sentence]] = {
    "devices": lambda v: phrase(
        "Quota %(rule)s: %(used)s of %(limit)s devices are taken; this pod asks for %(asked)s more.", **v
    ),
    "memory_mib": lambda v: phrase(
        "Quota %(rule)s: %(used)s of %(limit)s MiB are taken; this pod asks for %(asked)s MiB more.", **v
    ),
    "core_percent": lambda v: phrase(
        "Quota %(rule)s: %(used)s of %(limit)s %% of cores are taken; this pod asks for %(asked)s %% more.", **v
    ),
    "pod_devices": lambda v: phrase(
        "Quota %(rule)s: a pod may have %(limit)s devices; this one asks for %(asked)s.", **v
    ),
    "pod_memory_mib": lambda v: phrase(
        "Quota %(rule)s: a pod may have %(limit)s MiB; this one asks for %(asked)s MiB.", **v
    ),
    "pod_core_percent": lambda v: phrase(
        "Quota %(rule)s: a pod may have %(limit)s %% of cores; this one asks for %(asked)s %%.", **v
    ),
    "device_memory_mib": lambda v: phrase(
        "Quota %(rule)s: a pod may have %(limit)s MiB of one device; this one asks for %(asked)s MiB.", **v
    ),
}


def of_placement(placement: place.Placement) -> Sentence:
    """Where a pod fits."""
    uuids = ", ".join(dict.fromkeys(share.uuid for share in placement.shares))
    return phrase("Fits now on %(node)s: %(devices)s.", node=placement.node, devices=uuids)


def of_devices(decision: place.Decision, nearest: NodeLine | None, *, never: bool) -> Sentence:
    """Why no node takes it. nearest: the node on which the least is missing, as it is; for `never`, emptied."""
    if nearest is None or nearest.reason is None:
        return phrase("No node is registered that could be asked.")
    reason = _telling(nearest, nearest.reason)
    nearest = replace(nearest, reason=reason)
    tell = (_NEVER.get(reason) if never else None) or _REASONS.get(reason)
    if tell is None or not nearest.cards:
        tell = _whole
    return tell(nearest, decision.question.request)


def _telling(line: NodeLine, reason: Reason) -> Reason:
    """What is wrong with the devices that the pod's annotations choose, where there are any: the others are beside the
    point, however many they are."""
    if reason not in _NOT_CHOSEN:
        return reason
    counts = Counter(card.reason for card in line.cards if card.reason is not None and card.reason not in _NOT_CHOSEN)
    return min(counts, key=lambda one: (-counts[one], one.value), default=reason)


_NOT_CHOSEN = frozenset({Reason.CARD_TYPE_MISMATCH, Reason.CARD_UUID_MISMATCH, Reason.MODE_NOT_FIT})


def _largest(line: NodeLine, request: PodRequest) -> Sentence:
    del request
    best = _rank(line.cards, line.count, lambda card: card.free_mib)
    values: dict[str, Value] = {"count": line.count, "node": line.node, "best": best}
    values["need"] = max(card.need_mib for card in line.cards)
    if line.count == 1:
        return phrase(
            "Needs %(need)s MiB on a device; the largest device here, on %(node)s, has %(best)s MiB for pods.", **values
        )
    return phrase(
        "Needs %(need)s MiB on each of %(count)s devices of one node; even when nothing runs, the last of them has "
        "%(best)s MiB on %(node)s, the largest.",
        **values,
    )


def _no_model(line: NodeLine, request: PodRequest) -> Sentence:
    models = ", ".join(sorted({card.model for card in line.cards}))
    return phrase(
        "Its annotations choose the model or mode (%(wanted)s), and no node has enough of such devices; %(node)s has "
        "%(models)s.",
        wanted=_wanted(line, request), node=line.node, models=models,
    )  # fmt: skip


def _wanted(line: NodeLine, request: PodRequest) -> str:
    wanted = request.constraints.of(line.cards[0].vendor)
    without = ", ".join(wanted.nouse_models or ())
    return ", ".join(wanted.use_models or ()) or wanted.vgpu_mode or (f"not {without}" if without else "")


def _memory(line: NodeLine, request: PodRequest) -> Sentence:
    del request
    fit_else = [card for card in line.cards if card.reason in (None, Reason.CARD_INSUFFICIENT_MEMORY)]
    best, need = _rank(fit_else, line.count, lambda card: card.free_mib), max(card.need_mib for card in line.cards)
    values: dict[str, Value] = {"need": need, "count": line.count, "node": line.node, "best": best}
    if line.count == 1:
        return phrase("Needs %(need)s MiB on a device; the most that is free is %(best)s MiB, on %(node)s.", **values)
    return phrase(
        "Needs %(need)s MiB on each of %(count)s devices of one node; nearest is %(node)s, where the last of them has "
        "%(best)s MiB free.",
        **values,
    )


def _cores(line: NodeLine, request: PodRequest) -> Sentence:
    del request
    fit_else = [card for card in line.cards if card.reason in (None, Reason.CARD_INSUFFICIENT_CORE)]
    best = _rank(fit_else, line.count, lambda card: card.free_core_percent)
    need = max(card.need_core_percent for card in line.cards)
    values: dict[str, Value] = {"need": need, "count": line.count, "node": line.node, "best": best}
    if line.count == 1:
        return phrase(
            "Needs %(need)s %% of a device's cores; the nearest is %(node)s, where %(best)s %% are free.", **values
        )
    return phrase(
        "Needs %(need)s %% of the cores of each of %(count)s devices of one node; nearest is %(node)s, where the last "
        "of them has %(best)s %% free.",
        **values,
    )


def _count(line: NodeLine, request: PodRequest) -> Sentence:
    del request
    return phrase(
        "Needs %(count)s devices on one node; nearest is %(node)s, where %(good)s of %(have)s would do.",
        count=line.count, node=line.node, good=line.good, have=len(line.cards),
    )  # fmt: skip


def _too_few(line: NodeLine, request: PodRequest) -> Sentence:
    del request
    return phrase(
        "Needs %(count)s devices on one node; the node with the most, %(node)s, has %(have)s.",
        count=line.count, node=line.node, have=len(line.cards),
    )  # fmt: skip


def _model(line: NodeLine, request: PodRequest) -> Sentence:
    models = ", ".join(sorted({card.model for card in line.cards}))
    return phrase(
        "Its annotations choose the model or mode (%(wanted)s), and no device that would do has room; %(node)s has "
        "%(models)s.",
        wanted=_wanted(line, request), node=line.node, models=models,
    )  # fmt: skip


def _uuid(line: NodeLine, request: PodRequest) -> Sentence:
    del request
    return phrase("Its annotations choose devices by uuid, and none of those would do.", node=line.node)


def _health(line: NodeLine, request: PodRequest) -> Sentence:
    del request
    return phrase("%(node)s would do, but for its unhealthy devices (%(n)s).", node=line.node, n=_how_many(line))


def _cordon(line: NodeLine, request: PodRequest) -> Sentence:
    del request
    return phrase("%(node)s would do, but for its cordoned devices (%(n)s).", node=line.node, n=_how_many(line))


def _slots(line: NodeLine, request: PodRequest) -> Sentence:
    del request
    return phrase(
        "All shares are taken: on %(node)s, where the least is missing, %(slots)s of %(slots)s of a device.",
        node=line.node, slots=max(card.slots for card in line.cards),
    )  # fmt: skip


def _exclusive(line: NodeLine, request: PodRequest) -> Sentence:
    del request
    return phrase(
        "Wants %(count)s devices for itself; on %(node)s, the nearest, %(n)s of %(have)s have other holders.",
        count=line.count, node=line.node, n=_how_many(line), have=len(line.cards),
    )  # fmt: skip


def _compute(line: NodeLine, request: PodRequest) -> Sentence:
    del request
    return phrase(
        "Asks for no cores, and all cores are taken: on %(node)s, the nearest, of %(n)s devices.",
        node=line.node, n=_how_many(line),
    )  # fmt: skip


def _geometry(line: NodeLine, request: PodRequest) -> Sentence:
    del request
    return phrase(
        "Needs a MIG instance of %(need)s MiB; no device of %(node)s, the nearest, has a free place for one.",
        need=max(card.need_mib for card in line.cards), node=line.node,
    )  # fmt: skip


def _numa(line: NodeLine, request: PodRequest) -> Sentence:
    del request
    return phrase("Wants %(count)s devices of one NUMA node; no NUMA node of %(node)s has them free.",
               count=line.count, node=line.node)  # fmt: skip


def _quota(line: NodeLine, request: PodRequest) -> Sentence:
    del request
    return phrase("A limit of its namespace refuses the devices of %(node)s, the nearest.", node=line.node)


def _whole(line: NodeLine, request: PodRequest) -> Sentence:
    del request
    return phrase("The nearest node, %(node)s, refuses it: %(text)s.", node=line.node, text=line.text)


_REASONS: Mapping[Reason, Callable[[NodeLine, PodRequest], Sentence]] = {
    Reason.CARD_INSUFFICIENT_MEMORY: _memory,
    Reason.CARD_INSUFFICIENT_CORE: _cores,
    Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST: _count,
    Reason.NODE_INSUFFICIENT_DEVICE: _too_few,
    Reason.CARD_TYPE_MISMATCH: _model,
    Reason.MODE_NOT_FIT: _model,
    Reason.CARD_UUID_MISMATCH: _uuid,
    Reason.CARD_NOT_HEALTH: _health,
    Reason.CARD_UNHEALTHY: _health,
    Reason.CARD_CORDONED: _cordon,
    Reason.CARD_TIME_SLICING_EXHAUSTED: _slots,
    Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT: _exclusive,
    Reason.CARD_COMPUTE_UNITS_EXHAUSTED: _compute,
    Reason.CARD_MIG_TOPOLOGY_INFEASIBLE: _geometry,
    Reason.NUMA_NOT_FIT: _numa,
    Reason.RESOURCE_QUOTA_NOT_FIT: _quota,
}


_NEVER: Mapping[Reason, Callable[[NodeLine, PodRequest], Sentence]] = {
    Reason.CARD_INSUFFICIENT_MEMORY: _largest,
    Reason.CARD_TYPE_MISMATCH: _no_model,
}
"""Where another sentence is truer for a pod that would not fit if nothing ran."""


def _how_many(line: NodeLine) -> int:
    """Devices that are refused for the line's reason."""
    return sum(card.reason == line.reason for card in line.cards)


def _rank(cards: Sequence[Card], count: int, amount: Callable[[Card], int]) -> int:
    """The amount on the count-th best of the cards; on the last where there are fewer; 0 for none."""
    free = sorted((amount(card) for card in cards), reverse=True)
    return free[min(count, len(free)) - 1] if free else 0
