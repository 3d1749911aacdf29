"""How many things one ledger transaction may take on, so that whoever else needs the Clock is served soon.

What a thing takes depends on the machine, so it is measured: each transaction says what the next one may do. Must not
know what the things are.
"""

from __future__ import annotations

SERVING_S, IDLE_S = 0.01, 0.2
"""How long the Clock may be held: while others decide, and while nobody can, since the ledger was not compared yet.
Both are far below what a listener waits for it (`lock_timeout_s`)."""
FIRST, LEAST, IDLE_LEAST, MOST = 20, 5, 100, 1000
"""On a machine so busy that a transaction alone takes as long, it must be worth it."""
GROWTH = 4
"""A transaction is so many times as large as the one before at most: a small one says little of a large one."""


class Pace:
    """Of one run over many things."""

    def __init__(self) -> None:
        self._last, self._each_s = FIRST, 0.0

    def size(self, *, serving: bool) -> int:
        """How many things the next transaction takes."""
        if not self._each_s:
            return self._last
        may_s, least = (SERVING_S, LEAST) if serving else (IDLE_S, IDLE_LEAST)
        return max(least, min(int(may_s / self._each_s), self._last * GROWTH, MOST))

    def took(self, count: int, held_s: float) -> None:
        """The last transaction held the Clock so long for so many things."""
        self._last, self._each_s = count, max(held_s, 1e-6) / count
