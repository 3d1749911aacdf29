"""What stands in a pod's way on single nodes: cordons, holds, memory kept back, locks, other pods, unhealthy devices.

Each is an obstacle that can be lifted by itself. Looks for the fewest that must go, on the nodes where the least is
missing; every find is tried again by `fixes` on all nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hami_platform.domain import fit, fix_moves
from hami_platform.domain.devices import NOTHING, Device, DeviceKey, Held
from hami_platform.domain.fixes import OPERATOR, OWNER, Draft, Kind, Scene, Step
from hami_platform.domain.nodes import DeviceState, NodeState
from hami_platform.domain.reasons import Reason
from hami_platform.domain.rows import Changes, LockRow, NodeRow, PodRow
from hami_platform.domain.sentences import Value, phrase
from hami_platform.domain.view import View

NODES = 12
POD_NODES = 6
MOST_PODS = 48
ENDING = ("releasing",)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing that takes something away on a node. key: of the device. number: of the hold's or the pod's row."""

    kind: Kind
    node: str
    key: DeviceKey = ("", "")
    number: int = 0
    weight: int = 0
    """MiB it frees; the rest of the order is the position."""


def lifted(scene: Scene) -> Iterator[Draft]:
    """Cordons, holds, memory kept back, locks and ill devices: one kind at a time, then all together."""
    for kinds in ((Kind.CORDON,), (Kind.HOLD,), (Kind.RESERVED,), (Kind.LOCK,), (Kind.HEALTH,)):
        yield from _over_nodes(scene, kinds, NODES)
    yield from _over_nodes(scene, (Kind.CORDON, Kind.RESERVED, Kind.HOLD, Kind.LOCK, Kind.HEALTH), NODES)


def cleared(scene: Scene) -> Iterator[Draft]:
    """All of it together, pods included: the last resort."""
    kinds = (Kind.CORDON, Kind.RESERVED, Kind.HOLD, Kind.LOCK, Kind.HEALTH, Kind.PREEMPT, Kind.WAIT)
    yield from _over_nodes(scene, kinds, POD_NODES)


def ended(scene: Scene) -> Iterator[Draft]:
    """Pods that must go, or end: lower-priority ones may be deleted for it; for others it is worth waiting. Where there
    is room for them elsewhere, they may move."""
    for kind in (Kind.PREEMPT, Kind.WAIT):
        for draft in _over_nodes(scene, (kind,), POD_NODES):
            yield draft
            yield from fix_moves.elsewhere(scene, draft)


def _over_nodes(scene: Scene, kinds: Sequence[Kind], most: int) -> Iterator[Draft]:
    """The best draft over the nearest nodes on which such obstacles lie."""
    found: list[Draft] = []
    for name in scene.near[: most * 2]:
        row = scene.view.nodes.get(name)
        obstacles = _obstacles(scene.view, row, scene.ask.priority, kinds) if row is not None else []
        if row is None or not obstacles or not _fits_without(scene, row, obstacles):
            continue
        found.append(_draft(scene.view, _fewest(scene, row, obstacles)))
        if len(found) >= most or len(found[-1].steps) == 1:
            break
    if found:
        yield min(found, key=lambda draft: (len(draft.steps), draft.size))


def _fewest(scene: Scene, row: NodeRow, obstacles: list[Obstacle]) -> list[Obstacle]:
    """Obstacles of which each one is needed: a single one if that will do, else what is left when others stay."""
    for one in sorted(obstacles, key=lambda one: one.weight):
        if _fits_without(scene, row, [one]):
            return [one]
    needed = list(obstacles)
    for one in sorted(obstacles, key=lambda one: (-one.weight, one.number, one.key)):
        fewer = [other for other in needed if other is not one]
        if fewer and _fits_without(scene, row, fewer):
            needed = fewer
    return needed


def _fits_without(scene: Scene, row: NodeRow, obstacles: Iterable[Obstacle]) -> bool:
    """Whether the pod fits on the node without these. The namespace's own limits are the last try's business."""
    question = scene.answer.decision.question
    node = _state_without(scene.view, row, frozenset(obstacles))
    return isinstance(fit.fit(node, question.request, question.terms), fit.Fitted)


def _obstacles(view: View, row: NodeRow, priority: int, kinds: Sequence[Kind]) -> list[Obstacle]:
    found: list[Obstacle] = []
    for kind in kinds:
        if kind in (Kind.PREEMPT, Kind.WAIT):
            found += _pods(view, row.name, kind, priority)
        elif kind is Kind.HOLD:
            found += [
                Obstacle(kind, row.name, hold.key, number, hold.held.memory_mib)
                for number, hold in sorted(view.holds.items())
                if hold.in_force and hold.node == row.name
            ]
        elif kind is Kind.LOCK:
            lock = view.locks.get(row.name)
            found += [Obstacle(kind, row.name)] if lock is not None and lock.stale else []
        else:
            found += [Obstacle(kind, row.name, device.key, 0, 0) for device in row.devices if _has(device, kind)]
    return found


def _has(device: Device, kind: Kind) -> bool:
    if kind is Kind.CORDON:
        return device.cordoned
    return device.reserved_mib > 0 if kind is Kind.RESERVED else not device.healthy


def _pods(view: View, node: str, kind: Kind, priority: int) -> list[Obstacle]:
    """Pods on the node, smallest first, at most MOST_PODS: those below the priority, or the others."""
    rows = [view.pods[number] for number in view.pods_by_node.get(node, ())]
    chosen = [row for row in rows if row.held and (row.priority < priority) == (kind is Kind.PREEMPT)]
    chosen.sort(key=lambda row: (row.priority, _mib(row), row.id))
    return [Obstacle(kind, node, number=row.id, weight=_mib(row)) for row in chosen[:MOST_PODS]]


def _mib(row: PodRow) -> int:
    return sum(held.memory_mib for held in row.held.values())


def _state_without(view: View, row: NodeRow, gone: frozenset[Obstacle]) -> NodeState:
    """What placement would see of the node without these; the same as folding their absence into the View."""
    pods = {one.number for one in gone if one.kind in (Kind.PREEMPT, Kind.WAIT)}
    holds = {one.number for one in gone if one.kind is Kind.HOLD}
    held: dict[DeviceKey, Held] = {}
    for number in view.pods_by_node.get(row.name, ()):
        if number not in pods:
            for key, amount in view.pods[number].held.items():
                held[key] = held.get(key, NOTHING) + amount
    for number, hold in view.holds.items():
        if hold.in_force and hold.node == row.name and number not in holds:
            held[hold.key] = held.get(hold.key, NOTHING) + hold.held
    devices = tuple(DeviceState(_mended(one, gone), held.get(one.key, NOTHING)) for one in row.devices)
    lock = view.locks.get(row.name)
    unlocked = any(one.kind is Kind.LOCK for one in gone)
    blocked = Reason.NODE_LOCKED if lock is not None and lock.stale and not unlocked else None
    if row.accounting_unknown:
        blocked = Reason.NODE_ACCOUNTING_UNKNOWN
    return NodeState.of(row.name, devices, blocked=blocked, pair_scores=row.pair_scores)


def _mended(device: Device, gone: frozenset[Obstacle]) -> Device:
    for one in gone:
        if one.key == device.key:
            device = _without(device, one.kind)
    return device


def _without(device: Device, kind: Kind) -> Device:
    if kind is Kind.CORDON:
        return replace(device, cordoned=False)
    if kind is Kind.RESERVED:
        return replace(device, reserved_mib=0)
    return replace(device, healthy=True) if kind is Kind.HEALTH else device


def _draft(view: View, obstacles: Sequence[Obstacle]) -> Draft:
    """The obstacles as steps, and as rows of a View without them."""
    node = view.nodes[obstacles[0].node]
    gone = frozenset(one for one in obstacles if one.kind not in (Kind.PREEMPT, Kind.WAIT, Kind.HOLD, Kind.LOCK))
    changed: dict[str, NodeRow | None] = {}
    if gone:
        changed = {node.name: replace(node, devices=tuple(_mended(one, gone) for one in node.devices))}
    locks: dict[str, LockRow | None] = {one.node: None for one in obstacles if one.kind is Kind.LOCK}
    changes = Changes(
        nodes=changed,
        holds={one.number: None for one in obstacles if one.kind is Kind.HOLD},
        pods={one.number: None for one in obstacles if one.kind in (Kind.PREEMPT, Kind.WAIT)},
        locks=locks,
    )
    steps = tuple(_step(view, one) for one in obstacles)
    return Draft(steps, changes, size=sum(one.weight for one in obstacles) / 1024)


def _step(view: View, one: Obstacle) -> Step:
    uuid = one.key[1]
    device = (one.node, *one.key)
    if one.kind is Kind.CORDON:
        return Step(one.kind, phrase("Uncordon %(uuid)s on %(node)s.", uuid=uuid, node=one.node), OPERATOR, device)
    if one.kind is Kind.RESERVED:
        action = phrase("Keep no memory back on %(uuid)s on %(node)s.", uuid=uuid, node=one.node)
        return Step(one.kind, action, OPERATOR, device, 0)
    if one.kind is Kind.HEALTH:
        return Step(one.kind, phrase("Repair %(uuid)s on %(node)s.", uuid=uuid, node=one.node), OPERATOR, device)
    if one.kind is Kind.HOLD:
        action = phrase("End hold %(hold)s on %(uuid)s.", hold=str(one.number), uuid=uuid)
        return Step(one.kind, action, OPERATOR, (str(one.number),))
    if one.kind is Kind.LOCK:
        return Step(one.kind, phrase("Release the lock of %(node)s.", node=one.node), OPERATOR, (one.node,))
    return _of_pod(view.pods[one.number], one.kind)


def _of_pod(row: PodRow, kind: Kind) -> Step:
    held = row.held.values()
    memory, cores = sum(one.memory_mib for one in held), sum(one.core_percent for one in held)
    values: dict[str, Value] = {"pod": f"{row.namespace}/{row.name}", "node": row.node, "mib": memory, "percent": cores}
    if kind is Kind.PREEMPT:
        action = phrase(
            "Delete %(pod)s, of lower priority: it holds %(mib)s MiB and %(percent)s %% of cores on %(node)s.", **values
        )
        return Step(kind, action, OPERATOR, (str(row.id),))
    return Step(
        kind,
        phrase("Wait until %(pod)s ends: it holds %(mib)s MiB and %(percent)s %% of cores on %(node)s.", **values),
        OWNER,
        (str(row.id),),
    )
