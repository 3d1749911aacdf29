"""Storms in rounds: 64 pods ask at once for room that is made for a few of them. Every round has ground of its own, so
that nothing need be given back in between.

| kind | room | fits |
|---|---|---|
| device | one device | 5 |
| nodes | eight nodes of one device, one pod each | 8 |
| limit | 16 × 8 devices, a namespace limit | 5 |
| limit, large | 1,000 × 8 devices, a namespace limit | 5 |

Must not know: what tests assert.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.chaos import fill, storm
from tests.chaos.stand import Member

ASKS = 64


@dataclass(frozen=True)
class Kind:
    """Nodes of a prefix: `count` in each round, or the same in all of them where a limit decides."""

    name: str
    prefix: str
    count: int
    devices: int
    mem_mib: int
    fits: int
    limited: bool = False

    @property
    def names(self) -> list[str]:
        """The nodes of the first round."""
        return fill.names(self.prefix, self.count)

    def namespace(self, number: int) -> str:
        """Whose pods ask in a round: one with a limit, or one without."""
        return f"{self.prefix}{number}" if self.limited else "free"


SHARED = Kind("limit", "n", 16, 8, 1000, 5, limited=True)
SMALL = (Kind("device", "one", 1, 1, 4900, 5), Kind("nodes", "eight", 8, 1, 20000, 8), SHARED)
LARGE = Kind("limit, large", "many", 1000, 8, 1000, 5, limited=True)


def nodes(kinds: Sequence[Kind], many: int) -> dict[str, tuple[int, int]]:
    """The nodes that so many rounds of each kind need, as `fill` takes them."""
    return {one.prefix: (one.count * (1 if one.limited else many), one.devices) for one in kinds}


def limits(kinds: Sequence[Kind], many: int) -> dict[str, int]:
    """The limits that they need."""
    limited = [one for one in kinds if one.limited]
    return {one.namespace(number): one.fits * one.mem_mib for one in limited for number in range(many)}


def play(kind: Kind, targets: Sequence[Member], number: int) -> int:
    """How many of the 64 were placed."""
    pods = [
        storm.pod(f"{kind.prefix}-{number}-{one}", kind.mem_mib, namespace=kind.namespace(number))
        for one in range(ASKS)
    ]
    after = 0 if kind.limited else number * kind.count
    return sum(map(bool, storm.filtered(targets, pods, fill.names(kind.prefix, kind.count, after=after))))
