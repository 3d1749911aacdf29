"""The made-up library writes regions that the agent's reader takes for real ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from deviceplugin import monitor_claims, monitor_pods, region, region_files
from hami_platform.demo import library
from tests.deviceplugin.builders import GPU_A, GPU_B, pod, row, running, typed

MIB = 1 << 20
ROWS = row((GPU_A, 4096, 30), (GPU_B, 2048, 0))


def used(folder: Path, value: dict[str, Any], now_s: float = 1000.0) -> region.Region | None:
    """What the reader finds after the library has run once."""
    for container, devices in library._running(value):
        library._write(folder / f"uid-train_{container['name']}" / "made-up.cache", container, devices, now_s)
    with region_files.opened(folder, region_files.Owner("uid-train", "main"), writable=False) as file:
        return None if file is None else region.read(file)


def test_a_running_containers_region_is_believed_whole(tmp_path: Path) -> None:
    (tmp_path / "uid-train_main").mkdir()
    value = pod(rows=ROWS, annotations={library.ALLOCATED: ROWS}, status=running(), env={"CUDA_TASK_PRIORITY": "0"})
    for now_s in (1000.0, 1100.0):
        found = used(tmp_path, value, now_s)
        assert found is not None
        due = monitor_pods.entitlement(typed(value), typed(value).spec.containers[0], None)
        believed = monitor_claims.believe(found, due, {GPU_A: 24576 * MIB, GPU_B: 24576 * MIB})
        assert believed.problems == frozenset()
        first, second = believed.devices
        assert 0 < first.total_bytes <= 4096 * MIB
        assert first.total_bytes == first.context_bytes + first.module_bytes + first.data_bytes
        assert (first.limit_bytes, second.limit_bytes) == (4096 * MIB, 2048 * MIB)
        assert 0 <= first.core_percent <= 30
        assert found.last_kernel_s == now_s


def test_what_does_not_run_or_has_no_device_has_no_region(tmp_path: Path) -> None:
    assert list(library._running(pod(rows=ROWS, annotations={library.ALLOCATED: ROWS}))) == []
    assert list(library._running(pod(rows=None, status=running()))) == []
    assert list(library._running(pod(rows="x", annotations={library.ALLOCATED: "x"}, status=running()))) == []


def test_the_monitors_words_are_left_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "uid-train_main").mkdir()
    value = pod(rows=ROWS, annotations={library.ALLOCATED: ROWS}, status=running())
    found = used(tmp_path, value)
    assert found is not None
    path = tmp_path / "uid-train_main" / "made-up.cache"
    file = os.open(path, os.O_RDWR)
    region.write_words(file, found.layout, found.words, region.Words(-1, 0))
    os.close(file)
    again = used(tmp_path, value)
    assert again is not None
    assert again.words == region.Words(-1, 0)
