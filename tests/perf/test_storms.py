"""Storms on listeners over PostgreSQL: what is asserted is that nothing is given twice; what is printed is the pace.

| storm | expected |
|---|---|
| 64 pods ask two extenders at once, for room of 5, 8, 5 and 5 | exactly that, in each of 40 rounds |
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from tests.chaos import rounds, stand, storm
from tests.perf import serving

pytestmark = [pytest.mark.perf, pytest.mark.timeout(1200)]

KINDS = (*rounds.SMALL, rounds.LARGE)


def test_64_at_once_in_many_rounds(fresh_postgres: str, tmp_path: Path, quick: bool) -> None:
    many = 5 if quick else 40
    with stand.standing(tmp_path, fresh_postgres) as one:
        one.prepare(nodes=rounds.nodes(KINDS, many), limits=rounds.limits(KINDS, many))
        pair = one.add("extender", 2)
        one.wait()
        for kind in KINDS:
            took, placed = [], []
            for number in range(many):
                began = time.perf_counter()
                placed.append(rounds.play(kind, pair, number))
                took.append(time.perf_counter() - began)
            serving.report(
                f"64 at once, {kind.name}: {sorted(set(placed))} placed of {kind.fits} that fit, {many} rounds,"
                f" {rounds.ASKS / statistics.median(took):.0f} answers/s"
            )
            assert placed == [kind.fits] * many
    assert storm.rows(fresh_postgres, storm.OVER) == []
    assert storm.rows(fresh_postgres, storm.TWICE) == []
