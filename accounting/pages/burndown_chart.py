"""Draws the burn-down of a budget as SVG geometry: what was left, where it goes with its band, and an even pace.

Texts stand beside the drawing, so that they keep their size on any screen. It must not know requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from accounting.selectors import pods
from accounting.selectors.burndown import BurnDown, Point

WIDTH: Final = 1000
HEIGHT: Final = 100


@dataclass(frozen=True, slots=True)
class Column:
    """From one point to the next, for the pointer; and a row of the table. Texts: an en dash where nothing is known."""

    x: float
    width: float
    at: datetime
    left: str
    low: str
    middle: str
    high: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing of WIDTH × HEIGHT. left, ahead, even, band: points of lines and of an area; now: where today lies, None
    in a period that is over or has not begun."""

    line: BurnDown
    left: str
    below: str
    ahead: str
    even: str
    band: str
    now: float | None
    columns: tuple[Column, ...]
    ticks: tuple[str, ...]
    times: tuple[datetime, ...]

    @property
    def rows(self) -> tuple[Column, ...]:
        """For the table: one a day, and the last one that is known."""
        return tuple(one for one in self.columns if one.at.hour == 0 or one.at == self.line.burn.at)


def drawing(line: BurnDown) -> Drawing | None:
    """The burn-down drawn; None where nothing is planned that could burn down."""
    points, limit = line.points, float(line.burn.limit)
    if not limit:
        return None
    first, last = points[0].at, points[-1].at
    whole = (last - first).total_seconds()

    def x(at: datetime) -> float:
        return round(WIDTH * (at - first).total_seconds() / whole, 1)

    def joined(each: Iterable[Point], value: Callable[[Point], float | None]) -> str:
        known = ((x(one.at), value(one)) for one in each)
        return " ".join(f"{at:g},{_y(amount, limit):g}" for at, amount in known if amount is not None)

    passed = [one for one in points if one.left is not None]
    left = joined(passed, lambda one: one.left)
    band = joined(points, lambda one: one.high), joined(reversed(points), lambda one: one.low)
    return Drawing(
        line=line,
        left=left,
        below=f"0,{HEIGHT} {left} {x(passed[-1].at):g},{HEIGHT}" if passed else "",
        ahead=joined(points, lambda one: one.middle),
        even=joined((points[0], points[-1]), lambda one: one.even),
        band=" ".join(filter(None, band)),
        now=x(line.burn.at) if first < line.burn.at < last else None,
        columns=tuple(_columns(points, x)),
        ticks=(shown(limit), shown(limit / 2), "0"),
        times=(first, first + (last - first) / 2, last),
    )


def shown(amount: float | None) -> str:
    """`1 234`, or `12.5` of less than a hundred."""
    if amount is None:
        return "–"
    return pods.grouped(round(amount)) if abs(amount) >= 100 else f"{amount:.1f}".removesuffix(".0")


def _columns(points: Sequence[Point], x: Callable[[datetime], float]) -> Iterable[Column]:
    for n, one in enumerate(points):
        until = x(points[n + 1].at) if n + 1 < len(points) else WIDTH
        texts = (shown(value) for value in (one.left, one.low, one.middle, one.high))
        yield Column(x(one.at), round(until - x(one.at), 1), one.at, *texts)


def _y(amount: float, limit: float) -> float:
    """What is over the budget has no height: the sentence says by how much."""
    return round(HEIGHT - HEIGHT * min(max(amount, 0.0), limit) / limit, 1)
