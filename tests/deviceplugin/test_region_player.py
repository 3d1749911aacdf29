"""The region as a compiler lays it out, and as another process changes it at full speed."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

from deviceplugin import region
from deviceplugin.region_layout import TRANSITIONAL, V0, V1, Layout
from tests.deviceplugin import region_player
from tests.deviceplugin.process import until
from tests.deviceplugin.regions import Process, content, write


@pytest.mark.parametrize("layout", [V0, V1, TRANSITIONAL], ids=lambda layout: layout.name)
@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="semaphores differ elsewhere")
def test_offsets_are_where_a_compiler_puts_the_fields(layout: Layout) -> None:
    said = subprocess.run([region_player.build(), "offsets", layout.name], capture_output=True, text=True, check=True)
    offsets = dict(line.split() for line in said.stdout.splitlines())
    assert {name: int(value) for name, value in offsets.items()} == {name: getattr(layout, name) for name in offsets}
    assert len(offsets) >= 17


def test_no_total_is_of_two_moments_at_full_speed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.cache", content(processes=[Process({0: (0, 0, 0, 0)})]))
    seen: set[int] = set()

    def look() -> bool:
        """Many readings: `until` pauses between its questions."""
        for _ in range(500):
            file = os.open(path, os.O_RDONLY)
            found = region.read(file)
            os.close(file)
            (device,) = found.devices
            if not found.torn:
                assert device.total_bytes == device.context_bytes + device.data_bytes
                seen.add(device.total_bytes)
        return len(seen) > 20

    with subprocess.Popen([region_player.build(), "churn", path, "60000"]) as writer:
        try:
            until(look)
        finally:
            writer.kill()
