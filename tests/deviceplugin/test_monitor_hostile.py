"""A container that changes everything it can while it is watched: file, size, kind, content.

Nothing of it ends a round, and its neighbour's figures stay exact.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from deviceplugin import monitor_claims
from tests.deviceplugin.builders import GPU_A, GPU_B, row
from tests.deviceplugin.process import ROOT, until
from tests.deviceplugin.regions import Process
from tests.deviceplugin.test_monitor import MIB, Bench

ROUNDS = 100
KINDS = 4
"""The rounds go on until so many kinds of problems were met."""


def test_a_container_at_work_on_its_region_spoils_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.pod("bad", rows=row((GPU_B, 1, 30)))
    bad = bench.region("bad", uuids=[GPU_B])
    bench.region("train", processes=[Process()] * 3)
    hostile = subprocess.Popen([sys.executable, "-m", "tests.deviceplugin.hostile", str(bad)], cwd=ROOT)
    met: set[str] = set()

    def look() -> bool:
        picture = bench.look()
        by_pod = {one.pod: one for one in picture.containers}
        assert [(d.uuid, d.total_bytes) for d in by_pod["train"].devices] == [(GPU_A, 24000)]
        claimed = by_pod["bad"].devices if "bad" in by_pod else ()
        assert all(d.uuid == GPU_B and d.total_bytes <= 24576 * MIB for d in claimed)
        met.update(picture.problems)
        return len(met) >= KINDS

    try:
        until(look)
        for _ in range(ROUNDS):
            look()
    finally:
        hostile.kill()
        hostile.wait()
    assert met <= {*region_words(), *claim_words()}


def region_words() -> set[str]:
    """Of files that are no regions."""
    return {"too_short", "magic", "size", "version", "truncated", "several_files", "not_a_file", "unreadable"}


def claim_words() -> set[str]:
    """Of regions that say what is not so."""
    words = monitor_claims
    known = (words.FOREIGN, words.REPEATED, words.IMPLAUSIBLE, words.LIMIT, words.PRIORITY, words.TORN, words.UNNAMED)
    return set(known)
