"""Clocks that are minutes off, and stepped while pods come and go: the ledger goes by the database's clock alone.

| process | its clock |
|---|---|
| a webhook, an extender | ten minutes ahead, then ten minutes behind |
| the watcher | right, then ten minutes ahead, then ten minutes behind |
| beat and worker | two minutes behind and two ahead, then both set back by ten |

A claim lasts 15 s and a reservation 60 s: one that went by a process's clock would lapse, or never.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.accounting.simulated import until
from tests.chaos import cluster, stand, storm, traffic

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

HERE = Path(__file__).resolve().parent
AHEAD_S, BEHIND_S = 600, -600
SENT = "SELECT epoch FROM accounting_processlease WHERE name = 'wake'"
LAPSED = "SELECT count(*) FROM accounting_journal WHERE cause = 'leases_tick' AND kind = 'pod'"


class Clock:
    """How far off the clock of the processes is that follow this file."""

    def __init__(self, file: Path, off_s: float = 0) -> None:
        self._file = file
        self.set(off_s)

    def set(self, off_s: float) -> None:
        """From now on so many seconds off."""
        new = self._file.with_suffix(".new")
        new.write_text(str(off_s), encoding="utf-8")
        new.replace(self._file)

    @property
    def settings(self) -> dict[str, str]:
        """By which a process follows it."""
        return {"PYTHONPATH": f"{HERE / 'stepped'}:{stand.ROOT}", "CHAOS_CLOCK_FILE": str(self._file)}


@pytest.fixture
def clocks(fresh_postgres: str, tmp_path: Path) -> Iterator[tuple[cluster.Cluster, stand.Stand, dict[str, Clock]]]:
    """Processes with clocks of their own around one cluster."""
    made = {role: Clock(tmp_path / f"{role}.clock") for role in ("listeners", "watcher", "beat", "worker")}
    with contextlib.ExitStack() as stack:
        around = stack.enter_context(cluster.Cluster(tmp_path))
        one = stack.enter_context(stand.standing(tmp_path, fresh_postgres, **around.settings))
        for number in range(2):
            around.node(f"n{number}", 8)
        one.prepare()
        for role in ("webhook", "extender"):
            one.add(role)
            one.add(role, **made["listeners"].settings)  # type: ignore[arg-type]
        for role in ("watcher", "beat", "worker"):
            one.add(role, **made[role].settings)  # type: ignore[arg-type]
        one.wait()
        around.open(one)
        yield around, one, made


def test_clocks_that_are_stepped_by_minutes_change_nothing(
    clocks: tuple[cluster.Cluster, stand.Stand, dict[str, Clock]], fresh_postgres: str
) -> None:
    around, one, clock = clocks
    with cluster.Bound(around) as bound, traffic.Traffic(around, bound, "steps") as flow:
        flow.wait("pods are placed", "placed", 8)
        for beat_s, worker_s, off_s in ((-120, 120, AHEAD_S), (-720, -500, BEHIND_S), (0, 0, 0)):
            clock["listeners"].set(off_s)
            clock["watcher"].set(off_s)
            clock["beat"].set(beat_s)
            clock["worker"].set(worker_s)
            before = storm.rows(fresh_postgres, SENT)
            flow.wait("pods are placed by clocks that are off", "placed", 30)
            until(lambda before=before: storm.rows(fresh_postgres, SENT) != before, "the ticks go on", 30)
        assert not flow.refused
    assert storm.rows(fresh_postgres, LAPSED) == [(0,)]
    until(lambda: "no difference" in one.manage("selfcheck"), "the self check finds no difference", 60)
    assert cluster.over(around.given()) == {}
