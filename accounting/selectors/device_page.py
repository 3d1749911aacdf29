"""One device: who holds what of it, drawn to scale. Positions are per mille of the bar's width."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from accounting.models import Device, Hold
from accounting.selectors import cluster, holders
from accounting.selectors.access import Reach
from hami_platform.domain.devices import MigPlacement
from hami_platform.domain.nodes import DeviceState
from hami_platform.domain.view import View

SLOTS_DRAWN = 128


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a bar. kind: solid, placed, init, releasing, person, kept (for the driver) or free."""

    kind: str
    label: str
    amount: int
    start: int
    width: int
    key: str = ""

    @property
    def x(self) -> str:
        """Left edge, in percent of the bar."""
        return f"{self.start / 10:.1f}%"

    @property
    def w(self) -> str:
        """Width, in percent of the bar."""
        return f"{self.width / 10:.1f}%"


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar in one unit. limit: where the device ends, per mille; below 1000 when more is held than it has."""

    segments: tuple[Segment, ...]
    total: int
    free: int
    limit: int = 1000

    @property
    def over(self) -> int:
        """By how much more is held than there is."""
        return max(0, -self.free)

    @property
    def limit_x(self) -> str:
        """Where the device ends, in percent of the bar."""
        return f"{self.limit / 10:.1f}%"


@dataclass(frozen=True, slots=True)
class MigRow:
    """One occupied or possible placement on a MIG card. start and size in memory slices."""

    profile: str
    start: int
    size: int
    label: str = ""
    key: str = ""
    slices: int = 8

    @property
    def x(self) -> str:
        """Left edge, in percent."""
        return f"{self.start * 100 / self.slices:.1f}%"

    @property
    def w(self) -> str:
        """Width, in percent."""
        return f"{self.size * 100 / self.slices:.1f}%"


@dataclass(frozen=True, slots=True)
class DevicePage:
    """All that the page of one device says."""

    row: Device
    state: DeviceState | None
    cell: cluster.Cell | None
    memory: Bar | None
    cores: Bar | None
    holds: tuple[Hold, ...]
    mig_used: tuple[MigRow, ...] = ()
    mig_free: tuple[MigRow, ...] = ()

    @property
    def holders(self) -> tuple[holders.Holder, ...]:
        """Who holds something of it."""
        return self.cell.holders if self.cell else ()


def device_page(view: View, row: Device, reach: Reach) -> DevicePage:
    """The page of a stored device; state is None while its node or registration is gone."""
    node = row.node.name
    people = holders.holds_by_node(view).get(node, {})
    cells = cluster.cells_of(view, node, reach, people) if node in view.states else iter(())
    cell = next((one for one in cells if one.state.device.key == (row.vendor, row.uuid)), None)
    holds = tuple(Hold.objects.filter(device=row, in_force=True).order_by("pk"))
    if cell is None:
        return DevicePage(row, None, None, None, None, holds)
    state = cell.state
    return DevicePage(
        row,
        state,
        cell,
        memory_bar(state, cell.holders),
        _bar([("solid", one.label, one.held.core_percent, one.key) for one in cell.holders], state.device.core_percent),
        holds,
        tuple(_mig_used(cell)),
        tuple(_mig_free(cell)),
    )


def memory_bar(state: DeviceState, here: Iterable[holders.Holder]) -> Bar:
    """Memory by holder, the part held only until init ends apart, what is kept back, and the free tail."""
    pieces: list[tuple[str, str, int, str]] = []
    for one in here:
        pieces.append((one.kind, one.label, one.steady_mib, one.key))
        pieces.append(("init", f"{one.label} until its init ends", one.init_mib, one.key))
    pieces.append(("kept", "kept back for the driver", state.device.reserved_mib, ""))
    return _bar(pieces, state.device.memory_mib)


def slots(state: DeviceState | None) -> list[bool]:
    """One entry per share that the device can give, True where it is given; SLOTS_DRAWN at most."""
    if state is None:
        return []
    return [n < state.held.slots for n in range(min(SLOTS_DRAWN, max(state.device.slots, state.held.slots)))]


def _bar(pieces: list[tuple[str, str, int, str]], total: int) -> Bar:
    pieces = [piece for piece in pieces if piece[2] > 0]
    held = sum(amount for _, _, amount, _ in pieces)
    scale = max(total, held, 1)
    segments: list[Segment] = []
    at = 0
    for kind, label, amount, key in pieces:
        segments.append(_segment(kind, label, amount, at, scale, key))
        at += amount
    if held < total:
        segments.append(_segment("free", "free", total - held, at, scale, ""))
    return Bar(tuple(segments), total, total - held, total * 1000 // scale)


def _segment(kind: str, label: str, amount: int, at: int, scale: int, key: str) -> Segment:
    """Edges are rounded, not widths: pieces stay seamless."""
    start, end = at * 1000 // scale, (at + amount) * 1000 // scale
    return Segment(kind, label, amount, start, end - start, key)


def _slices(cell: cluster.Cell) -> int:
    """Memory slices of the card: the furthest end of any placement that it offers."""
    offered = [spot for one in cell.state.device.mig_profiles for spot in one.placements]
    return max((spot.start + spot.size for spot in offered), default=8)


def _mig_used(cell: cluster.Cell) -> Iterable[MigRow]:
    slices = _slices(cell)
    for one in cell.holders:
        for use in one.held.mig:
            yield MigRow(use.profile, use.placement.start, use.placement.size, one.label, one.key, slices)


def _mig_free(cell: cluster.Cell) -> Iterable[MigRow]:
    """Where each profile could still be placed."""
    used = [use.placement for one in cell.holders for use in one.held.mig]
    slices = _slices(cell)
    for profile in cell.state.device.mig_profiles:
        for spot in profile.placements:
            if not any(_overlap(spot, other) for other in used):
                yield MigRow(profile.name, spot.start, spot.size, slices=slices)


def _overlap(a: MigPlacement, b: MigPlacement) -> bool:
    return a.start < b.start + b.size and b.start < a.start + a.size
