"""Draws a trend as SVG geometry. Texts stand beside the drawing, so that they keep their size on any screen.

It must not know what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils.functional import Promise

from accounting.selectors import trends
from accounting.selectors.trends import Trend, Values

HEIGHT: Final = 100
STEP: Final = 10
"""Units of the drawing for an hour; it is stretched to the width of the page."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One line: its pieces, since a gap has no line, and the outline of what lies below it."""

    kind: str
    name: str | Promise
    lines: tuple[str, ...]
    areas: tuple[str, ...]
    last: str


@dataclass(frozen=True, slots=True)
class Column:
    """One hour, for the pointer and for the table. cells: of each line, in their order."""

    x: int
    hour: datetime
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing `width` × HEIGHT, with the labels of its two axes from top to bottom and from left to right."""

    width: int
    unit: str | Promise
    lines: tuple[Drawn, ...]
    columns: tuple[Column, ...]
    ticks: tuple[str, ...]
    times: tuple[datetime, ...]

    @property
    def rows(self) -> tuple[Column, ...]:
        """What is known, newest first, for the table."""
        return tuple(one for one in reversed(self.columns) if any(cell != "–" for cell in one.cells))


def day_of_cluster(now: datetime) -> Chart | None:
    """The last day of the whole cluster."""
    return chart(trends.cluster_trend(trends.hours_before(now, trends.DAY_H)))


def week_of(now: datetime, namespaces: Collection[str]) -> Chart | None:
    """The last week of some namespaces."""
    return chart(trends.scope_trend(trends.hours_before(now, trends.WEEK_H), namespaces))


def day_of(now: datetime, *, node: str, uuid: str = "") -> Chart | None:
    """The last day of a node, or of one device."""
    return chart(trends.device_trend(trends.hours_before(now, trends.DAY_H), now, node=node, uuid=uuid))


def chart(trend: Trend) -> Chart | None:
    """The trend drawn; None where there is nothing."""
    if not trend.known:
        return None
    top = trend.top or _round_up(max(value or 0 for one in trend.series for value in one.values))
    hours = trend.hours
    return Chart(
        width=STEP * len(hours),
        unit=trend.unit,
        lines=tuple(
            Drawn(one.kind, one.name, *_drawn(one.values, top), last=_last(one.values)) for one in trend.series
        ),
        columns=tuple(
            Column(STEP * n, hour, tuple(_text(one.values[n]) for one in trend.series)) for n, hour in enumerate(hours)
        ),
        ticks=(_text(top), _text(top / 2), "0"),
        times=(hours[0], hours[len(hours) // 2], hours[-1]),
    )


def _drawn(values: Values, top: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    pieces = [[(STEP * n + STEP // 2, _y(value, top)) for n, value in piece] for piece in _pieces(values)]
    lines = tuple(_points(piece) for piece in pieces)
    areas = tuple(_points([(piece[0][0], HEIGHT), *piece, (piece[-1][0], HEIGHT)]) for piece in pieces)
    return lines, areas


def _pieces(values: Values) -> Iterator[list[tuple[int, float]]]:
    """Runs of known values."""
    run: list[tuple[int, float]] = []
    for n, value in enumerate([*values, None]):
        if value is not None:
            run.append((n, value))
        elif run:
            yield run if len(run) > 1 else [run[0], (run[0][0], run[0][1])]
            run = []


def _points(piece: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in piece)


def _y(value: float, top: float) -> float:
    return round(HEIGHT - HEIGHT * min(value, top) / top, 1)


def _round_up(value: float) -> float:
    """1, 2 or 5 times a power of ten, at least 1."""
    if value <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= value)


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}".removesuffix(".0")


def _last(values: Values) -> str:
    return _text(next((value for value in reversed(values) if value is not None), None))
