"""What a change would do to the pods that wait and to those that run, on a copy of the View. Nothing is written.

A scenario is a change of rows, and the pods that it puts out of their places. Waiting pods are tried in the order in
which they are woken, each that fits taking its devices before the next is tried. Must not know: who asks, or why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hami_platform.domain import place, quota, what_if
from hami_platform.domain.devices import Device
from hami_platform.domain.errors import RequestError
from hami_platform.domain.fixes import merged
from hami_platform.domain.quota import Excess
from hami_platform.domain.rows import Changes, NodeRow, PodRow, QuotaRow
from hami_platform.domain.view import View

MOST_PODS = 200
"""Waiting pods that are tried."""
MOST_NODES = 1000
"""Nodes that a scenario may add."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """changes: rows as they would be. displaced: pods that lose their place (of a drained node), by row id."""

    changes: Changes = field(default_factory=Changes)
    displaced: tuple[int, ...] = ()

    def __add__(self, other: Scenario) -> Scenario:
        return Scenario(merged(self.changes, other.changes), (*self.displaced, *other.displaced))


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod and where it would go."""

    pod: PodRow
    placement: place.Placement


@dataclass(frozen=True, slots=True)
class Stranded:
    """A pod that would get no place. excess: the limit that stops it, if it is quota; else reasons says what."""

    pod: PodRow
    excess: Excess | None
    reasons: str


@dataclass(frozen=True, slots=True)
class Over:
    """A limit that is exceeded by what is used already."""

    rule: str
    resource: str
    limit: int
    used: int

    @property
    def over(self) -> int:
        return self.used - self.limit


@dataclass(frozen=True, slots=True)
class Effect:
    """What would be different.

    starts: waiting pods that would be placed, and would not be without the change. strands: those that would be placed
    without it. moves: displaced pods that find another place. homeless: those that find none. over: limits exceeded
    after, and not as far before. waiting: how many wait; tried: how many of them were looked at.
    """

    starts: tuple[Placed, ...]
    strands: tuple[Stranded, ...]
    moves: tuple[Placed, ...]
    homeless: tuple[Stranded, ...]
    over: tuple[Over, ...]
    waiting: int
    tried: int
    revision: int


@dataclass(frozen=True, slots=True)
class After:
    """The View with a scenario in it, and where the displaced pods went."""

    view: View
    moves: tuple[Placed, ...] = ()
    homeless: tuple[Stranded, ...] = ()


def after(view: View, scenario: Scenario, decide: what_if.Decide) -> After:
    """The scenario done: rows changed, displaced pods in new places as far as there are any."""
    displaced = [_unplaced(view.pods[number]) for number in scenario.displaced if number in view.pods]
    changed = view.fold(scenario.changes).fold(Changes(pods={row.id: row for row in displaced}))
    moves, refused = _placed(changed, what_if.in_order(displaced), decide)
    settled = changed.fold(Changes(pods={one.pod.id: reserved(one.pod, one.placement) for one in moves.values()}))
    homeless = (_stranded(refused[row.id], view.pods[row.id]) for row in displaced if row.id not in moves)
    return After(settled, tuple(moves.values()), tuple(homeless))


def effect(view: View, scenario: Scenario, decide: what_if.Decide) -> Effect:
    """The View with the scenario, beside the View as it is."""
    queue = what_if.waiting(view)
    tried = queue[:MOST_PODS]
    before = _placed(view, tried, decide)[0]
    done = after(view, scenario, decide)
    now, refused = _placed(done.view, [row for row in tried if row.id in done.view.pods], decide)
    return Effect(
        tuple(one for number, one in now.items() if number not in before),
        tuple(_stranded(refused[row.id], row) for row in tried if row.id in before and row.id in refused),
        done.moves,
        done.homeless,
        tuple(_over(view, done.view)),
        len(queue),
        len(tried),
        view.clock.revision,
    )


def copies(view: View, ask: what_if.Ask, count: int, decide: what_if.Decide) -> list[place.Placement]:
    """Where so many pods like this one would go, one after the other, until one does not fit."""
    found: list[place.Placement] = []
    for number in range(1, count + 1):
        placement = decide(view, ask, None).placement
        if placement is None:
            break
        found.append(placement)
        row = PodRow(-number, f"copy-{number}", "", ask.namespace, f"copy-{number}", "waiting", ask.request)
        view = view.fold(Changes(pods={row.id: reserved(row, placement)}))
    return found


def _placed(
    view: View, rows: Iterable[PodRow], decide: what_if.Decide
) -> tuple[dict[int, Placed], dict[int, what_if.Answer]]:
    """Which of the pods get a place, one after the other; and the refusals of the others."""
    found: dict[int, Placed] = {}
    refused: dict[int, what_if.Answer] = {}
    hopeless: dict[object, what_if.Answer] = {}  # the View only fills up: what did not fit will not
    for row in rows:
        shape = (row.namespace, row.request, row.state == "claimed" and row.charges)
        answer = hopeless.get(shape) or decide(view, what_if.ask_of(row), None)
        if answer.placement is None:
            hopeless[shape] = refused[row.id] = answer
            continue
        found[row.id] = Placed(row, answer.placement)
        view = view.fold(Changes(pods={row.id: reserved(row, answer.placement)}))
    return found, refused


def reserved(row: PodRow, placement: place.Placement) -> PodRow:
    """The pod as if it had just been given this place."""
    return replace(row, state="reserved", node=placement.node, shares=placement.shares, claim_charges=())


def _unplaced(row: PodRow) -> PodRow:
    """The pod as its controller would make it anew: without a place, waiting."""
    return replace(row, state="waiting", node="", shares=(), claim_charges=(), facts=None)


def _stranded(answer: what_if.Answer, row: PodRow) -> Stranded:
    reasons = "" if answer.decision.placement is not None else place.summary(answer.decision.rejections)
    return Stranded(row, answer.excess if answer.stops else None, reasons)


def _over(before: View, after: View) -> Iterable[Over]:
    """Limits exceeded after the change by more than before; each once."""
    known = {(one.rule, one.resource): one.over for one in _exceeded(before)}
    for one in _exceeded(after):
        if one.over > known.get((one.rule, one.resource), 0):
            yield one


def _exceeded(view: View) -> Iterable[Over]:
    seen: set[str] = set()
    for name in sorted(view.namespaces):
        for rule, used in view.headroom(name).rules:
            if rule.name in seen:
                continue
            seen.add(rule.name)
            for resource in quota.SUMS:
                limit, amount = getattr(rule.limits, resource), getattr(used, resource)
                if limit is not None and amount > limit:
                    yield Over(rule.name, resource, limit, amount)


# -- Scenarios


def quota_change(row: QuotaRow) -> Scenario:
    """A quota as it would be, new or changed."""
    return Scenario(Changes(quotas={row.id: row}))


def node_group(view: View, *, like: str, count: int, names: str = "new") -> Scenario:
    """`count` nodes like a registered one, empty. Raises RequestError that names what is wrong."""
    template = _node(view, like)
    devices = template.devices
    return _group(template, devices, count, names)


def node_group_of(*, device: Device, devices: int, count: int, names: str = "new") -> Scenario:
    """`count` nodes with `devices` devices each, all like this one."""
    if not 1 <= devices <= 64:
        raise RequestError(f"devices: {devices} must be between 1 and 64", key="devices")
    return _group(NodeRow(""), tuple(replace(device, index=index) for index in range(devices)), count, names)


def _group(template: NodeRow, devices: tuple[Device, ...], count: int, names: str) -> Scenario:
    if not 1 <= count <= MOST_NODES:
        raise RequestError(f"count: {count} must be between 1 and {MOST_NODES}", key="count")
    rows: dict[str, NodeRow | None] = {}
    for number in range(1, count + 1):
        name = f"{names}-{number}"
        own = tuple(
            replace(one, uuid=f"{name}-{place_}", healthy=True, cordoned=False, reserved_mib=0)
            for place_, one in enumerate(devices)
        )
        rows[name] = replace(template, name=name, devices=own, retired=False, accounting_unknown="", pair_scores={})
    return Scenario(Changes(nodes=rows))


def device_cordon(view: View, *, node: str, uuid: str, cordoned: bool = True) -> Scenario:
    """A device closed to new pods, or opened. Raises RequestError where there is none such."""
    row = _node(view, node)
    if all(one.uuid != uuid for one in row.devices):
        raise RequestError(f"uuid: {node} has no device {uuid}", key="uuid")
    devices = tuple(replace(one, cordoned=cordoned) if one.uuid == uuid else one for one in row.devices)
    return Scenario(Changes(nodes={node: replace(row, devices=devices)}))


def node_cordon(view: View, *, node: str, cordoned: bool = True) -> Scenario:
    """All devices of a node closed to new pods, or opened."""
    row = _node(view, node)
    devices = tuple(replace(one, cordoned=cordoned) for one in row.devices)
    return Scenario(Changes(nodes={node: replace(row, devices=devices)}))


def node_drain(view: View, *, node: str) -> Scenario:
    """A node closed, and all that holds devices on it made to find another place."""
    closed = node_cordon(view, node=node)
    return Scenario(closed.changes, tuple(sorted(view.pods_by_node.get(node, ()))))


def node_gone(view: View, *, node: str) -> Scenario:
    """A node taken away with its devices; its pods look for another place."""
    row = _node(view, node)
    changed = Changes(nodes={node: replace(row, retired=True)})
    return Scenario(changed, tuple(sorted(view.pods_by_node.get(node, ()))))


def _node(view: View, name: str) -> NodeRow:
    row: NodeRow | None = view.nodes.get(name)
    if row is None or row.retired:
        raise RequestError(f"node: there is no node {name}", key="node")
    return row
