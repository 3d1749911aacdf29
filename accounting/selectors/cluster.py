"""The cluster at a glance: four figures, and the heat map of devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from accounting.selectors import holders
from accounting.selectors.access import Reach
from hami_platform.domain.nodes import MIG, DeviceState, NodeState
from hami_platform.domain.view import View

WAITING_STATES = frozenset({"waiting", "claimed"})


@dataclass(frozen=True, slots=True)
class Figure:
    """Held of a total, in one unit."""

    held: int
    total: int

    @property
    def percent(self) -> int:
        """Held per hundred of the total; 0 where there is none."""
        return self.held * 100 // self.total if self.total else 0


@dataclass(frozen=True, slots=True)
class Figures:
    """The four figures. devices: those with any holder; pending: pods that wait for a device, or for quota."""

    devices: Figure
    memory_mib: Figure
    core_percent: Figure
    pending: int
    pending_visible: int


@dataclass(frozen=True, slots=True)
class Shade:
    """css: class of the drawing. text: what stands in it. words: the same for who does not see it."""

    css: str
    text: str
    words: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One device of the heat map. marks: (glyph, words) of all that is special about it. shade: None where the drawing
    shows amounts of memory and cores."""

    node: str
    state: DeviceState
    marks: tuple[tuple[str, str], ...]
    holders: tuple[holders.Holder, ...] = ()
    shade: Shade | None = None

    @property
    def memory_share(self) -> int:
        """Per hundred of the registered memory that is held or kept back, at most 100."""
        device, held = self.state.device, self.state.held
        return min(100, (held.memory_mib + device.reserved_mib) * 100 // device.memory_mib) if device.memory_mib else 0

    @property
    def core_share(self) -> int:
        """Per hundred of the registered cores that is held, at most 100."""
        device, held = self.state.device, self.state.held
        return min(100, held.core_percent * 100 // device.core_percent) if device.core_percent else 0

    @property
    def fill(self) -> tuple[int, int]:
        """Top and height of the memory fill, in the cell's 28 units."""
        return drawn(self.memory_share)

    @property
    def side(self) -> tuple[int, int]:
        """Top and height of the bar of cores."""
        return drawn(self.core_share)

    @property
    def glyph(self) -> str:
        """The most important mark."""
        return self.marks[0][0] if self.marks else ""

    @property
    def words(self) -> str:
        """All marks in words."""
        return ", ".join(words for _, words in self.marks)


@dataclass(frozen=True, slots=True)
class HeatRow:
    """One node's devices of one model."""

    node: str
    blocked: str
    cells: tuple[Cell, ...]
    model: str = ""

    @property
    def memory_share(self) -> int:
        """Per hundred of the devices' registered memory that is held or kept back, at most 100."""
        total = sum(one.state.device.memory_mib for one in self.cells)
        taken = sum(one.state.held.memory_mib + one.state.device.reserved_mib for one in self.cells)
        return min(100, taken * 100 // total) if total else 0

    @property
    def core_share(self) -> int:
        """Per hundred of the devices' registered cores that is held, at most 100."""
        total = sum(one.state.device.core_percent for one in self.cells)
        return min(100, sum(one.state.held.core_percent for one in self.cells) * 100 // total) if total else 0

    @property
    def fill(self) -> tuple[int, int]:
        """Top and height of the memory fill, in a block's 28 units."""
        return drawn(self.memory_share)

    @property
    def side(self) -> tuple[int, int]:
        """Top and height of the bar of cores."""
        return drawn(self.core_share)

    @property
    def marked(self) -> int:
        """How many of the devices have a mark."""
        return sum(1 for one in self.cells if one.marks)


@dataclass(slots=True)
class HeatGroup:
    """All nodes with a model."""

    model: str
    rows: list[HeatRow] = field(default_factory=list)

    @property
    def devices(self) -> int:
        """How many."""
        return sum(len(row.cells) for row in self.rows)


class _Sums(NamedTuple):
    """Of one node: devices in use and all, MiB held and registered, core % held and registered."""

    used: int
    devices: int
    held_mib: int
    total_mib: int
    held_cores: int
    total_cores: int


def figures(view: View, reach: Reach) -> Figures:
    """Sums over the registered devices of live nodes."""
    kept: dict[str, _Sums] = view.states.memo("sums")
    for name, node in view.states.items():
        if name not in kept:
            kept[name] = _sums(node)
    used, devices, held_mib, total_mib, held_cores, total_cores = map(
        sum, zip(*map(kept.__getitem__, view.states), strict=True) if view.states else ((0,),) * len(_Sums._fields)
    )
    pending = [pod for pod in view.pods.values() if pod.state in WAITING_STATES]
    return Figures(
        Figure(used, devices),
        Figure(held_mib, total_mib),
        Figure(held_cores, total_cores),
        len(pending),
        sum(1 for pod in pending if reach.sees(pod.namespace)),
    )


def _sums(node: NodeState) -> _Sums:
    states = node.devices
    return _Sums(
        sum(1 for one in states if one.held),
        len(states),
        sum(one.held.memory_mib for one in states),
        sum(one.device.memory_mib for one in states),
        sum(one.held.core_percent for one in states),
        sum(one.device.core_percent for one in states),
    )


def heat_map(view: View, reach: Reach, shade: Callable[[Cell], Shade] | None = None) -> list[HeatGroup]:
    """Every device of every live node, by model, then by node; one pass over devices and pods."""
    groups: dict[str, HeatGroup] = {}
    people = holders.holds_by_node(view)
    for name in sorted(view.states):
        cells: Iterable[Cell] = cells_of(view, name, reach, people.get(name, {}))
        if shade is not None:
            cells = (replace(one, shade=shade(one)) for one in cells)
        for row in _by_model(view.states[name], cells):
            groups.setdefault(row.model, HeatGroup(row.model)).rows.append(row)
    return [groups[model] for model in sorted(groups)]


def rows_of(node: NodeState) -> list[HeatRow]:
    """One row for each model on a node, without who holds what."""
    return _by_model(node, (Cell(node.name, one, marks_of(one, by_people=False)) for one in node.devices))


def _by_model(node: NodeState, cells: Iterable[Cell]) -> list[HeatRow]:
    by_model: dict[str, list[Cell]] = {}
    for one in cells:
        by_model.setdefault(one.state.device.model or one.state.device.vendor, []).append(one)
    blocked = node.blocked.value if node.blocked else ""
    return [HeatRow(node.name, blocked, tuple(found), model) for model, found in by_model.items()]


def cells_of(
    view: View, node: str, reach: Reach, people: dict[tuple[str, str], list[holders.Holder]]
) -> Iterator[Cell]:
    """The node's devices in order, with who holds them."""
    pods = holders.holders_on(view, node, reach)
    for one in view.states[node].devices:
        key = one.device.key
        here = tuple(pods.get(key, []) + people.get(key, []))
        yield Cell(node, one, marks_of(one, by_people=key in people), here)


def cells_found(view: View, reach: Reach, text: str, *, most: int | None) -> tuple[list[Cell], int]:
    """(devices that `text` names by node, model, vendor, uuid or mark, by model and node, at most so many; their
    number). most: None for all."""
    people = holders.holds_by_node(view)
    wanted = text.lower()
    found = sorted(
        (one.device.model or one.device.vendor, name, number)
        for name, node in view.states.items()
        for number, one in enumerate(node.devices)
        if not wanted or wanted in _searched(name, one, people.get(name, {}))
    )
    shown, cells = found[:most], {}
    for name in {name for _, name, _ in shown}:
        cells[name] = list(cells_of(view, name, reach, people.get(name, {})))
    return [cells[name][number] for _, name, number in shown], len(found)


def _searched(node: str, one: DeviceState, people: Mapping[tuple[str, str], object]) -> str:
    device = one.device
    marks = ", ".join(words for _, words in marks_of(one, by_people=device.key in people))
    return f"{node} {device.uuid} {device.model} {device.vendor} {marks}".lower()


def drawn(share: int) -> tuple[int, int]:
    """Top and height of a share per hundred, from below, in 28 units with a border."""
    height = 26 * share // 100
    return 27 - height, height


def marks_of(state: DeviceState, *, by_people: bool) -> tuple[tuple[str, str], ...]:
    """Glyphs and words, most important first."""
    device = state.device
    found = (
        ("✕", "unhealthy", not device.healthy),
        ("!", "over-committed", state.free_memory_mib < 0 or state.free_core_percent < 0 or state.free_slots < 0),
        ("‖", "cordoned", device.cordoned),
        ("●", "partly held by a person", by_people),
        ("◫", "MIG", device.mode == MIG),
    )
    return tuple((glyph, words) for glyph, words, true in found if true)
