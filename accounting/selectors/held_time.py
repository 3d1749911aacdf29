"""Time of devices that somebody held, what of it was measured and not used, and what both cost. It must not know where
the sums are from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from hami_platform.domain import cost

TIMES: Final = ("card_us", "measured_us", "unused_us", "unbusy_us")


@dataclass(slots=True, kw_only=True)
class HeldTime:
    """card_us: microseconds of whole devices. measured_us: of card_us, while use was measured; unused_us: of that, held
    beyond what was used; unbusy_us: of that, while the shares' cores were idle. cents: by currency; unused_cents: what
    the unused part costs."""

    card_us: int = 0
    measured_us: int = 0
    unused_us: int = 0
    unbusy_us: int = 0
    cents: dict[str, int] = field(default_factory=dict)
    unused_cents: dict[str, int] = field(default_factory=dict)

    @property
    def device_hours(self) -> Fraction:
        """Hours of whole devices."""
        return Fraction(self.card_us, cost.HOUR_US)

    @property
    def unused_hours(self) -> Fraction:
        """Hours of whole devices that were held and, as was measured, not used."""
        return Fraction(self.unused_us, cost.HOUR_US)

    @property
    def unbusy_hours(self) -> Fraction:
        """Hours of whole devices while the shares' cores were measured idle."""
        return Fraction(self.unbusy_us, cost.HOUR_US)

    @property
    def measured_permille(self) -> int | None:
        """How much of the time was measured; None where nothing was held."""
        return self.measured_us * 1000 // self.card_us if self.card_us else None

    @property
    def unused_permille(self) -> int | None:
        """How much of what was measured was not used; None where nothing was measured."""
        return self.unused_us * 1000 // self.measured_us if self.measured_us else None

    @property
    def currencies(self) -> list[str]:
        """Of what it costs, in order."""
        return sorted(self.cents)

    @property
    def unused_costs(self) -> list[tuple[str, int]]:
        """(currency, cents) of what was not used, in order."""
        return sorted(self.unused_cents.items())

    def add(self, other: HeldTime) -> None:
        """Somebody else's time and money."""
        for name in TIMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for sums, more in ((self.cents, other.cents), (self.unused_cents, other.unused_cents)):
            for currency, cents in more.items():
                sums[currency] = sums.get(currency, 0) + cents


def total(held: Iterable[HeldTime]) -> HeldTime:
    """All of it."""
    found = HeldTime()
    for one in held:
        found.add(one)
    return found
