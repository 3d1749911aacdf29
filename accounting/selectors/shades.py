"""What the colours of the heat map can tell, in which steps, and what each device's or node's is.

A shade is a class for the drawing with the number or glyph and the words for it: colour is never the only sign. It must
not know markup.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from django.db.models import Avg, Count, Max, Q
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounting import ledger
from accounting.models import DeviceReading
from accounting.selectors import cluster, readings
from accounting.selectors.cluster import Shade
from accounting.selectors.readings import Reading

MEMORY, CORES, USE, TEMPERATURE, HEALTH = "memory", "cores", "use", "temperature", "health"
READ: Final = frozenset({USE, TEMPERATURE, HEALTH})
"""Choices that need what agents read."""
PERCENT: Final = (1, 25, 50, 75, 95)
CELSIUS: Final = (40, 55, 70, 80, 90)
ILL, SLOW, OFF, WELL = "ill", "slow", "off", "well"
GLYPHS: Final = {ILL: "✕", SLOW: "▼", OFF: "‖", WELL: "✓"}
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Choice:
    """What the colours tell. source: where the figures come from. steps: lower ends, of all but the first step."""

    name: str
    label: str | Promise
    source: str | Promise
    unit: str = "%"
    steps: tuple[int, ...] = PERCENT
    ramp: str = "held"


CHOICES: Final = {
    one.name: one
    for one in (
        Choice(MEMORY, gettext_lazy("memory held"), gettext_lazy("Held: by the ledger, of the registered memory.")),
        Choice(CORES, gettext_lazy("cores held"), gettext_lazy("Held: by the ledger, of the registered cores.")),
        Choice(
            USE,
            gettext_lazy("measured use"),
            gettext_lazy("Measured: how busy the cores are, by the driver, mean of the agent's last report."),
        ),
        Choice(
            TEMPERATURE,
            gettext_lazy("temperature"),
            gettext_lazy("Measured: by the driver, as the agent last reported."),
            "°C",
            CELSIUS,
            "heat",
        ),
        Choice(
            HEALTH,
            gettext_lazy("health"),
            gettext_lazy("By the node's registration, and by the driver as the agent last reported."),
            "",
            (),
            "",
        ),
    )
}


class Summary(NamedTuple):
    """What was read of a node's devices of one model: hottest (°C), mean use (%), how many are slowed and ill."""

    hottest_c: int | None = None
    used_percent: int | None = None
    slow: int = 0
    ill: int = 0


NOTHING_READ: Final = Summary()


def choice_of(text: str) -> Choice:
    """The one of that name; memory for any other."""
    return CHOICES.get(text, CHOICES[MEMORY])


def legend(choice: Choice) -> list[tuple[str, str]]:
    """(class, text) of every step, then of what is not known."""
    if choice.name == HEALTH:
        words = {
            WELL: _("well"),
            OFF: _("cordoned"),
            SLOW: _("slowed down by heat or hardware"),
            ILL: _("unhealthy"),
        }
        return [(css, f"{GLYPHS[css]} {text}") for css, text in words.items()]
    ends = [*(f"{low}–{high - 1} {choice.unit}" for low, high in zip(choice.steps, choice.steps[1:], strict=False))]
    first = _("under {} {}").format(choice.steps[0], choice.unit)
    last = _("{} {} and more").format(choice.steps[-1], choice.unit)
    steps = [(f"{choice.ramp}-{n}", text) for n, text in enumerate((first, *ends, last))]
    return [*steps, (UNKNOWN, _("– not known"))] if choice.name in READ else steps


def of_device(choice: Choice, cell: cluster.Cell, reading: Reading | None) -> Shade:
    """One device's. A reading that is too old counts as none."""
    now = None if reading is None or reading.old else reading
    if choice.name == HEALTH:
        device = cell.state.device
        ill, slow = not device.healthy or bool(now and now.ailment), now is not None and now.troubled
        return _health(int(ill), int(slow), int(device.cordoned), 1)
    values = {
        MEMORY: cell.memory_share,
        CORES: cell.core_share,
        USE: None if now is None else now.core_used_percent,
        TEMPERATURE: None if now is None else now.temperature_c,
    }
    return _amount(choice, values[choice.name])


def of_row(choice: Choice, row: cluster.HeatRow, read: Summary) -> Shade:
    """A node's devices of one model: hottest, mean use, share of all, or how many are not well."""
    if choice.name == HEALTH:
        states = [cell.state.device for cell in row.cells]
        ill = max(read.ill, sum(not one.healthy for one in states))
        return _health(ill, read.slow, sum(one.cordoned for one in states), len(states))
    values = {MEMORY: row.memory_share, CORES: row.core_share, USE: read.used_percent, TEMPERATURE: read.hottest_c}
    return _amount(choice, values[choice.name])


def _amount(choice: Choice, value: int | None) -> Shade:
    if value is None:
        return Shade(UNKNOWN, "–", f"{choice.label}: {_('not known')}")
    return Shade(
        f"{choice.ramp}-{bisect.bisect_right(choice.steps, value)}",
        str(value),
        f"{choice.label}: {value} {choice.unit}",
    )


def _health(ill: int, slow: int, off: int, devices: int) -> Shade:
    """The worst of it, with how many where there are several."""
    words = {ILL: _("unhealthy"), SLOW: _("slowed down"), OFF: _("cordoned"), WELL: _("well")}
    for css, count in ((ILL, ill), (SLOW, slow), (OFF, off), (WELL, devices)):
        if count:
            number = "" if devices == 1 or css == WELL else str(count)
            return Shade(css, number + GLYPHS[css], f"{number} {words[css]}".strip())
    return Shade(UNKNOWN, "–", _("not known"))


def summaries() -> Mapping[str, dict[str, Summary]]:
    """By node and model (the vendor where it has none), of what was read lately."""
    slow = Q()
    for word in readings.TROUBLE:
        slow |= Q(slowed__contains=word)
    rows = (
        DeviceReading.objects.filter(device__cluster=ledger.cluster_id(), at__gte=readings.fresh_since())
        .order_by()
        .values_list("device__node__name", "device__model", "device__vendor")
        .annotate(
            hottest_c=Max("temperature_c"),
            used=Avg("core_used_percent"),
            slowed_=Count("pk", filter=slow),
            ill=Count("pk", filter=~Q(ailment="")),
        )
    )
    found: dict[str, dict[str, Summary]] = {}
    for node, model, vendor, hottest_c, used, slowed, ill in rows:
        mean = None if used is None else round(used)
        found.setdefault(node, {})[model or vendor] = Summary(hottest_c, mean, slowed, ill)
    return found


def shader(choice: Choice) -> Callable[[cluster.Cell], Shade]:
    """What gives a device its shade, by what was read until now."""
    read = readings.all_read() if choice.name in READ else {}
    return lambda cell: of_device(choice, cell, read.get((cell.node, *cell.state.device.key)))
