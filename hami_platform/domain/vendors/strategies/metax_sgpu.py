"""How shares of Metax GPUs are chosen: beside pods of the same kind, and whole cards that are linked.

Source of rules: HAMi v2.10.0. A card's sharing policy and application classes are those of the pods that hold it, so
they are the same after a restart; the policy that its plugin registers counts where no holder says one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from hami_platform.domain import conditions, devices, reasons, requests, strategy, trial
from hami_platform.domain.vendors.strategies import passing

Reason = reasons.Reason

QOS_KEY = "metax-tech.com/sgpu-qos-policy"
TOPOLOGY_KEY = "metax-tech.com/sgpu-topology-aware"
CLASS_KEY = "metax-tech.com/sgpu-app-class"
ONLINE, OFFLINE = "online", "offline"
QOS, ZONE = "QosPolicy", "LinkZone"
"""Device facts."""
WHOLE = 100
_LINK = 10
_BESIDE_ONLINE, _BESIDE_OFFLINE, _ONLY_OFFLINE = -20, -2, -100
"""What each pod on a card takes from the score of an online pod."""


def of(*, topology: bool) -> strategy.Strategy:
    """topology: links count for the node score where a pod says nothing of it."""

    def score(outcome: strategy.Outcome) -> float:
        return _score(outcome, topology)

    return strategy.Strategy(serve=_serve, floor=_floor, score=score, neutral=True)


def _floor(ask: requests.DeviceRequest) -> requests.DeviceRequest:
    """A request without cores may be an online pod's, for which cores are not looked at."""
    return ask if ask.core_percent else replace(ask, core_percent=passing.NO_CORES)


def _serve(scene: strategy.Scene) -> Sequence[strategy.Grant] | reasons.Rejection:
    fit: list[strategy.Grant] = []
    counts: Counter[Reason] = Counter()
    for one in scene.trials:
        memory_mib, core_percent = strategy.demand(one.device, scene.ask)
        reason = _refused(one, scene) or _room(one, scene, memory_mib, core_percent)
        if reason is None:
            fit.append(strategy.Grant(one, memory_mib, core_percent))
        else:
            counts[reason] += 1
    count = scene.ask.count
    if len(fit) < count:
        return passing.too_few(scene, len(fit), counts)
    if len(fit) > count:
        fit = _preferred(fit, scene)
    return fit[:count]


def _preferred(fit: list[strategy.Grant], scene: strategy.Scene) -> list[strategy.Grant]:
    app_class = scene.wanted.note(CLASS_KEY)
    if app_class == ONLINE:
        return sorted(fit, key=lambda one: _crowd(*_classes(_notes(one.trial, scene))))
    return _linked(fit, scene.ask.count) if app_class is None and scene.ask.core_percent == WHOLE else fit


def _refused(one: trial.Trial, scene: strategy.Scene) -> Reason | None:
    if not one.device.healthy:
        return Reason.CARD_UNHEALTHY
    if one.slots:
        app_class, notes = scene.wanted.note(CLASS_KEY), _notes(one, scene)
        if not _goes_beside(app_class, *_classes(notes)):
            return Reason.CARD_APP_CLASS_MISMATCH
        if app_class != ONLINE and scene.ask.core_percent != WHOLE:
            policies = _policies(one, notes)
            if policies and policies != {scene.wanted.note(QOS_KEY)}:
                return Reason.CARD_QOS_POLICY_MISMATCH
    return passing.before_room(one, scene)


def _room(one: trial.Trial, scene: strategy.Scene, memory_mib: int, core_percent: int) -> Reason | None:
    """An online pod takes no cores: it may have all that the offline ones leave."""
    if scene.wanted.note(CLASS_KEY) != ONLINE:
        return conditions.room(one.device, one, memory_mib=memory_mib, core_percent=core_percent)
    free_mib = one.device.memory_mib - one.device.reserved_mib - one.memory_mib
    return Reason.CARD_INSUFFICIENT_MEMORY if free_mib < memory_mib else None


def _notes(one: trial.Trial, scene: strategy.Scene) -> devices.Notes:
    """What those say who hold the card, the pod itself with what it took before among them."""
    held = one.state.held
    return held.notes + scene.wanted.notes if one.slots > held.slots else held.notes


def _classes(notes: devices.Notes) -> tuple[int, int]:
    """(online pods, offline pods) among the holders."""
    return notes.count((CLASS_KEY, ONLINE)), notes.count((CLASS_KEY, OFFLINE))


def _goes_beside(app_class: str | None, online: int, offline: int) -> bool:
    """Pods with a class share cards only with each other; an offline one never joins an online one."""
    if bool(online or offline) != (app_class in (ONLINE, OFFLINE)):
        return False
    return not (app_class == OFFLINE and online)


def _crowd(online: int, offline: int) -> tuple[bool, int, int]:
    """The least is the best card for an online pod: those with offline pods alone come last."""
    return (not online and offline > 0, online, offline)


def _policies(one: trial.Trial, notes: devices.Notes) -> set[str]:
    """The sharing policies in force on a card in use; none where its only holder has all cores, which shares with
    nobody."""
    if one.slots == 1 and one.core_percent == WHOLE:
        return set()
    said = {value for key, value in notes if key == QOS_KEY}
    registered = one.device.fact(QOS)
    return said or ({str(registered)} if registered else set())


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
    """An online pod's company counts against; for whole cards, links between those given count for, and links that
    are torn apart against."""
    if not outcome.shares:
        return 0.0
    given = {share.uuid for share in outcome.shares}
    word = outcome.shares[0].vendor
    mine = [state for state in outcome.node.devices if state.device.vendor == word]
    if outcome.wanted.note(CLASS_KEY) == ONLINE:
        return float(sum(_company(*_classes(state.held.notes)) for state in mine if state.device.uuid in given))
    said = outcome.wanted.note(TOPOLOGY_KEY)
    aware = topology if said is None else said in ("1", "t", "T", "true", "TRUE", "True")
    if not aware or not any(share.core_percent == WHOLE for share in outcome.shares):
        return 0.0
    idle = [state.device for state in mine if not state.held.slots]
    allocated = [state.device for state in mine if state.device.uuid in given]
    rest = [one for one in idle if one.uuid not in given]
    return float(_LINK * (_LINK * _pairs(allocated) - (_pairs(idle) - _pairs(allocated) - _pairs(rest))))


def _company(online: int, offline: int) -> int:
    return offline * _ONLY_OFFLINE if not online else online * _BESIDE_ONLINE + offline * _BESIDE_OFFLINE


def _pairs(found: Collection[devices.Device]) -> int:
    """Pairs of cards in one zone."""
    zones = Counter(zone for one in found if (zone := _zone(one)) != 0)
    return sum(size * (size - 1) // 2 for size in zones.values())
