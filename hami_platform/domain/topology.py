"""The best connected subset of devices, by pair scores. Knows nothing of why the devices are candidates."""

from __future__ import annotations

from collections.abc import Sequence

from hami_platform.domain.nodes import PairScores


def best_subset(count: int, uuids: Sequence[str], scores: PairScores) -> tuple[tuple[int, ...], int]:
    """Positions of the chosen devices in `uuids` (the order of preference), and the value of the choice.

    One device: the least connected to the others, so that well connected ones stay together. More: the highest sum over
    pairs. The first in lexicographic order wins ties (HAMi v2.10.0, topology-aware). Needs len(uuids) >= count.
    """
    if not scores:
        return tuple(range(count)), 0
    table = [[scores.get((a, b), 0) if i != j else 0 for j, b in enumerate(uuids)] for i, a in enumerate(uuids)]
    if count == 1:
        sums = [sum(row) for row in table]
        least = min(range(len(uuids)), key=lambda i: (sums[i], i))
        return (least,), -sums[least]
    return _Search(count, table).run()


class _Search:
    """Branch and bound over combinations in lexicographic order.

    A branch is dropped when even the best pairs left cannot beat what is known: a greedy choice's value before the
    first complete combination, the best combination after it.
    """

    def __init__(self, count: int, table: list[list[int]]) -> None:
        self.count = count
        self.table = table
        self.size = len(table)
        self.top = max((table[i][j] for i in range(self.size) for j in range(i + 1, self.size)), default=0)
        self.best: tuple[int, ...] | None = None
        self.value = self._greedy()

    def run(self) -> tuple[tuple[int, ...], int]:
        self._extend((), 0, [0] * self.size, 0)
        if self.best is None:
            raise AssertionError("the greedy choice is one of the combinations")
        return self.best, self.value

    def _greedy(self) -> int:
        """The value of one good combination: from every start, add the device that gains most."""
        return max(self._greedy_from(start) for start in range(self.size))

    def _greedy_from(self, start: int) -> int:
        chosen, rest = [start], [i for i in range(self.size) if i != start]
        while len(chosen) < self.count:
            best = max(rest, key=lambda i: sum(self._pair(i, j) for j in chosen))
            chosen.append(best)
            rest.remove(best)
        return sum(self._pair(a, b) for i, a in enumerate(chosen) for b in chosen[i + 1 :])

    def _pair(self, a: int, b: int) -> int:
        return self.table[a][b] if a < b else self.table[b][a]

    def _extend(self, chosen: tuple[int, ...], value: int, gains: list[int], start: int) -> None:
        left = self.count - len(chosen)
        if left == 0:
            if self.best is None or value > self.value:
                self.best, self.value = chosen, value
            return
        for i in range(start, self.size - left + 1):
            if self._promising(value, gains, i, left):
                row = self.table[i]
                more = [gain + row[j] for j, gain in enumerate(gains)]
                self._extend((*chosen, i), value + gains[i], more, i + 1)

    def _promising(self, value: int, gains: list[int], start: int, left: int) -> bool:
        """Whether `left` devices from `start` on can still beat what is known (reach it, before the first)."""
        best_gains = sum(sorted(gains[start:], reverse=True)[:left])
        bound = value + best_gains + self.top * (left * (left - 1) // 2)
        return bound > self.value or (self.best is None and bound == self.value)
