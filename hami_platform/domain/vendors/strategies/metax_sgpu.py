"""How shares of Metax GPUs are chosen: cards of the same sharing policy, and whole cards that are linked.

Source of rules: HAMi v2.10.0. The policy of a card is what its plugin registers; nothing is remembered beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from hami_platform.domain import conditions, devices, reasons, strategy, trial
from hami_platform.domain.vendors.strategies import passing

Reason = reasons.Reason

QOS_KEY = "metax-tech.com/sgpu-qos-policy"
TOPOLOGY_KEY = "metax-tech.com/sgpu-topology-aware"
QOS, ZONE = "QosPolicy", "LinkZone"
"""Device facts."""
WHOLE = 100
_LINK = 10


def of(*, topology: bool) -> strategy.Strategy:
    """topology: links count for the node score where a pod says nothing of it."""

    def score(outcome: strategy.Outcome) -> float:
        return _score(outcome, topology)

    return strategy.Strategy(serve=_serve, score=score, neutral=True)


def _serve(scene: strategy.Scene) -> Sequence[strategy.Grant] | reasons.Rejection:
    fit: list[strategy.Grant] = []
    counts: Counter[Reason] = Counter()
    for one in scene.trials:
        memory_mib, core_percent = strategy.demand(one.device, scene.ask)
        reason = _refused(one, scene) or conditions.room(
            one.device, one, memory_mib=memory_mib, core_percent=core_percent
        )
        if reason is None:
            fit.append(strategy.Grant(one, memory_mib, core_percent))
        else:
            counts[reason] += 1
    count = scene.ask.count
    if len(fit) < count:
        return passing.too_few(scene, len(fit), counts)
    if len(fit) > count and scene.ask.core_percent == WHOLE:
        fit = _linked(fit, count)
    return fit[:count]


def _refused(one: trial.Trial, scene: strategy.Scene) -> Reason | None:
    if not one.device.healthy:
        return Reason.CARD_UNHEALTHY
    if one.slots and scene.ask.core_percent != WHOLE:
        policy = one.device.fact(QOS)
        if policy and policy != scene.wanted.note(QOS_KEY):
            return Reason.CARD_QOS_POLICY_MISMATCH
    return passing.before_room(one, scene)


def _linked(fit: list[strategy.Grant], count: int) -> list[strategy.Grant]:
    """The smallest zone that has enough comes first, else all zones, the smallest first; cards in no zone last."""
    zones: dict[int, list[strategy.Grant]] = {}
    for one in fit:
        zones.setdefault(_zone(one.trial.device), []).append(one)
    ordered = sorted((zone for zone in zones if zone > 0), key=lambda zone: (len(zones[zone]), zone))
    enough = [zone for zone in ordered if len(zones[zone]) >= count]
    if enough:
        return zones[enough[0]]
    return [one for zone in (*ordered, *(zone for zone in zones if zone <= 0)) for one in zones[zone]]


def _zone(device: devices.Device) -> int:
    zone = device.fact(ZONE)
    return int(zone) if isinstance(zone, (int, float)) else 0


def _score(outcome: strategy.Outcome, topology: bool) -> float:
    """Links between the cards given count for, links that are torn apart count against; whole cards only."""
    said = outcome.wanted.note(TOPOLOGY_KEY)
    aware = topology if said is None else said in ("1", "t", "T", "true", "TRUE", "True")
    if not aware or not any(share.core_percent == WHOLE for share in outcome.shares):
        return 0.0
    given = {share.uuid for share in outcome.shares}
    word = outcome.shares[0].vendor
    mine = [state for state in outcome.node.devices if state.device.vendor == word]
    idle = [state.device for state in mine if not state.held.slots]
    allocated = [state.device for state in mine if state.device.uuid in given]
    rest = [one for one in idle if one.uuid not in given]
    return float(_LINK * (_LINK * _pairs(allocated) - (_pairs(idle) - _pairs(allocated) - _pairs(rest))))


def _pairs(found: Collection[devices.Device]) -> int:
    """Pairs of cards in one zone."""
    zones = Counter(zone for one in found if (zone := _zone(one)) != 0)
    return sum(size * (size - 1) // 2 for size in zones.values())
