"""A container that changes everything it can while it is watched: file, size, kind, content.

Nothing of it ends a round, and its neighbour's figures stay exact.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deviceplugin import monitor_claims
from deviceplugin.region_layout import TRANSITIONAL, V0, V1, Layout
from tests.deviceplugin.builders import GPU_A, GPU_B, row
from tests.deviceplugin.process import ROOT, until
from tests.deviceplugin.regions import Process, content
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


@pytest.mark.parametrize("layout", [V0, V1, TRANSITIONAL], ids=lambda layout: layout.name)
@pytest.mark.parametrize("claimed", [0, 24576 * MIB, 1])
def test_a_limit_that_a_container_changed_is_set_back(tmp_path: Path, layout: Layout, claimed: int) -> None:
    """Otherwise it would take its neighbour's memory. Other cards' limits, and its words, stay."""
    bench = Bench(tmp_path)
    bench.pod("bad", rows=row((GPU_A, 3000, 30), (GPU_B, 2000, 30)))
    path = bench.region("bad", layout=layout, uuids=[GPU_A, GPU_B], limits=[3000 * MIB, claimed], recent=0, switch=0)
    assert bench.look().problems == {"limit_changed": 1}
    picture = bench.look()
    assert [device.limit_bytes for device in picture.containers[0].devices] == [3000 * MIB, 2000 * MIB]
    assert picture.problems == {}
    expected = content(layout, uuids=[GPU_A, GPU_B], limits=[3000 * MIB, 2000 * MIB], recent=0, switch=0)
    assert path.read_bytes() == expected


def test_beside_another_monitor_a_changed_limit_is_only_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path, steer=False)
    bench.region(limits=[0])
    bench.look()
    picture = bench.look()
    assert (picture.problems, picture.containers[0].devices[0].limit_bytes) == ({"limit_changed": 1}, 0)


def test_while_no_card_can_be_seen_containers_are_believed_for_what_they_were_given(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.shown.publish(())
    bench.pod("bad")
    bench.region("bad", uuids=[GPU_A, GPU_B], limits=[MIB, MIB])
    picture = bench.look()
    assert [device.uuid for device in picture.containers[0].devices] == [GPU_A]
    assert picture.problems == {"foreign_device": 1}


def region_words() -> set[str]:
    """Of files that are no regions."""
    return {"too_short", "magic", "size", "version", "truncated", "several_files", "not_a_file", "unreadable"}


def claim_words() -> set[str]:
    """Of regions that say what is not so."""
    words = monitor_claims
    known = (words.FOREIGN, words.REPEATED, words.IMPLAUSIBLE, words.LIMIT, words.PRIORITY, words.TORN, words.UNNAMED)
    return set(known)
