"""What is read of a shared region, in every layout and whatever its owner writes into it.

Offsets, limits and clamps are the vectors of HAMi-core and of HAMi v2.10.0's monitor.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deviceplugin import region, region_layout
from deviceplugin.region import Words
from deviceplugin.region_layout import TRANSITIONAL, V0, V1, Layout
from tests.deviceplugin.builders import GPU_A, GPU_B
from tests.deviceplugin.process import ROOT, until
from tests.deviceplugin.regions import Library, Process, content, write

LAYOUTS = pytest.mark.parametrize("layout", [V0, V1, TRANSITIONAL], ids=lambda layout: layout.name)
U64 = 2**64 - 1


@contextmanager
def opened(path: Path, mode: int = os.O_RDONLY) -> Iterator[int]:
    file = os.open(path, mode)
    try:
        yield file
    finally:
        os.close(file)


def no_pause(_: float) -> None:
    """Reading again at once."""


def read(folder: Path, data: bytes | bytearray) -> region.Region:
    with opened(write(folder / "a.cache", data)) as file:
        return region.read(file, no_pause)


def problem(folder: Path, data: bytes | bytearray) -> str:
    with pytest.raises(region.RegionError) as caught:
        read(folder, data)
    return caught.value.problem


def test_sizes_and_offsets_are_those_of_the_library() -> None:
    assert (V0.size, V1.size, TRANSITIONAL.size) == (1_197_896, 2_008_952, 2_008_984)
    assert struct.pack("<i", region_layout.MAGIC) == bytes.fromhex("4EF72F01")
    for layout in (V0, V1, TRANSITIONAL):
        assert layout.procs + 1024 * layout.stride == layout.proc_num
        assert layout.uuids + 16 * 96 == layout.limit


@LAYOUTS
def test_the_worked_example_reads_the_same_in_every_layout(tmp_path: Path, layout: Layout) -> None:
    found = read(tmp_path, content(layout, version=(1, 1), last_kernel=100))
    (device,) = found.devices
    assert (device.uuid, device.limit_bytes, device.core_limit_percent) == (GPU_A, 10000, 30)
    assert (device.total_bytes, device.context_bytes, device.module_bytes, device.data_bytes) == (8000, 1000, 500, 300)
    assert (device.core_percent, found.processes, found.priority) == (42, 1, 1)
    assert (found.words, found.last_kernel_s) == (Words(recent=2, switch=1), 0 if layout is V0 else 100)
    assert found.layout is layout


@pytest.mark.parametrize(
    "size, version, expected",
    [
        (1_197_896, (9, 9), "v0"),
        (1_197_897, (9, 9), "v0"),
        (1_500_000, (0, 0), "v0"),
        (2_008_952, (1, 1), "v1"),
        (2_008_953, (1, 7), "v1"),
        (2_008_984, (1, 1), "transitional"),
        (2_008_985, (1, 1), "transitional"),
        (4_000_000, (1, 2), "v1"),
    ],
)
def test_the_size_tells_the_layout(tmp_path: Path, size: int, version: tuple[int, int], expected: str) -> None:
    data = bytearray(size)
    struct.pack_into("<iII", data, 0, region_layout.MAGIC, *version)
    assert read(tmp_path, data).layout.name == expected


@pytest.mark.parametrize(
    "data, expected",
    [
        (b"", "too_short"),
        (bytes(11), "too_short"),
        (bytes(12), "magic"),
        (content(magic=19920719), "magic"),
        (content()[:1_197_895], "size"),
        (content(version=(2, 0)), "version"),
        (content(TRANSITIONAL, version=(0, 1)), "version"),
        (b"\x7fELF" * 600_000, "magic"),
    ],
)
def test_what_is_no_region_is_said_in_one_word(tmp_path: Path, data: bytes, expected: str) -> None:
    assert problem(tmp_path, data) == expected


@pytest.mark.parametrize("proc_num, expected", [(-5, 0), (0, 0), (1, 1), (3, 3), (5000, 3), (2**31 - 1, 3)])
def test_the_number_of_processes_is_not_believed(tmp_path: Path, proc_num: int, expected: int) -> None:
    found = read(tmp_path, content(processes=[Process()] * 3, proc_num=proc_num))
    assert (found.processes, found.devices[0].total_bytes) == (expected, expected * 8000)


@LAYOUTS
def test_a_full_table_is_read_to_its_last_slot(tmp_path: Path, layout: Layout) -> None:
    found = read(tmp_path, content(layout, [Process()] * 1024, proc_num=5000))
    assert (found.processes, found.devices[0].total_bytes) == (1024, 1024 * 8000)


@pytest.mark.parametrize("device_num", [99, 16, U64])
def test_the_number_of_devices_is_not_believed(tmp_path: Path, device_num: int) -> None:
    names = [f"GPU-{n}" for n in range(16)]
    found = read(tmp_path, content(uuids=names, device_num=device_num))
    assert [device.uuid for device in found.devices] == names


def test_devices_without_a_readable_name_are_left_out_and_keep_the_others_place(tmp_path: Path) -> None:
    uses = {1: (1, 2, 3, 4), 3: (5, 6, 7, 8)}
    data = content(processes=[Process(uses, {3: 9})], uuids=["", GPU_A, b"\xff\xfe", GPU_B, b"a" * 96])
    found = read(tmp_path, data)
    assert [(d.index, d.uuid, d.total_bytes, d.core_percent) for d in found.devices] == [
        (1, GPU_A, 4, 0),
        (3, GPU_B, 8, 9),
        (4, "a" * 96, 0, 0),
    ]
    assert found.unreadable_uuids == 1


def test_processes_that_ended_do_not_count(tmp_path: Path) -> None:
    slots = [Process(), Process(status=0), Process(pid=0), Process(status=2), Process()]
    found = read(tmp_path, content(processes=slots))
    assert (found.processes, found.devices[0].total_bytes) == (3, 24000)


def test_numbers_beyond_64_bits_add_up_without_wrapping(tmp_path: Path) -> None:
    found = read(tmp_path, content(processes=[Process({0: (U64, U64, U64, U64)}, {0: U64})] * 2))
    assert found.devices[0].total_bytes == 2 * U64


def test_a_slot_whose_writer_died_in_the_middle_is_counted_and_told(tmp_path: Path) -> None:
    pauses: list[float] = []
    path = write(tmp_path / "a.cache", content(processes=[Process(sequence=7)] * 1024))
    with opened(path) as file:
        found = region.read(file, pauses.append)
    assert (found.torn, found.processes, found.devices[0].total_bytes) == (1024, 1024, 1024 * 8000)
    assert len(pauses) == region.REREADS_MOST


def test_a_file_cut_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.cache", content(processes=[Process(sequence=1)]))
    with opened(path) as file, pytest.raises(region.RegionError) as caught:
        region.read(file, lambda _: os.truncate(path, 5000 - 4000))
    assert caught.value.problem == "truncated"


def test_totals_are_of_one_moment_while_the_library_writes(tmp_path: Path) -> None:
    """Another process changes context and data under the sequence word; its total is always their sum."""
    path = write(tmp_path / "a.cache", content(processes=[Process({0: (0, 0, 0, 0)})]))
    command = [sys.executable, "-m", "tests.deviceplugin.regions", str(path)]
    seen: set[int] = set()

    def look() -> bool:
        with opened(path) as file:
            found = region.read(file)
        (device,) = found.devices
        if not found.torn:
            assert device.total_bytes == device.context_bytes + device.data_bytes
            seen.add(device.total_bytes)
        return len(seen) > 10

    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdin is not None
            writer.stdin.write("churn 60\n")
            writer.stdin.flush()
            until(look)
        finally:
            writer.kill()


@LAYOUTS
def test_only_words_that_differ_are_written_and_nothing_else(tmp_path: Path, layout: Layout) -> None:
    before = content(layout, switch=1, recent=2)
    path = write(tmp_path / "a.cache", before)
    with opened(path, os.O_RDWR) as file:
        assert region.write_words(file, layout, Words(2, 1), Words(-1, 1)) == 1
        assert region.write_words(file, layout, Words(-1, 1), Words(-1, 0)) == 1
        assert region.read_words(file, layout) == Words(-1, 0)
    struct.pack_into("<i", before, layout.recent_kernel, -1)
    struct.pack_into("<i", before, layout.utilization_switch, 0)
    assert path.read_bytes() == before


def test_a_cut_file_is_not_grown_by_feedback(tmp_path: Path) -> None:
    path = write(tmp_path / "a.cache", bytes(5000))
    with opened(path, os.O_RDWR) as file, pytest.raises(region.RegionError, match="shorter"):
        region.write_words(file, V1, Words(0, 0), Words(0, 1))
    assert path.stat().st_size == 5000


WORDS_OF_THE_HEADER = st.lists(st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=64)), max_size=20)


@settings(max_examples=60, deadline=None)
@given(
    layout=st.sampled_from([V0, V1, TRANSITIONAL]),
    header=WORDS_OF_THE_HEADER,
    tail=st.binary(max_size=56),
    slots=st.lists(st.binary(min_size=8, max_size=600), max_size=4),
    size=st.one_of(st.none(), st.integers(0, 2_100_000)),
)
def test_no_content_ends_the_reader(
    layout: Layout, header: list[tuple[int, bytes]], tail: bytes, slots: list[bytes], size: int | None
) -> None:
    """Whatever stands in the file, reading gives a bounded Region or a RegionError."""
    data = content(layout)
    for offset, text in header:
        data[offset : offset + len(text)] = text
    for number, text in enumerate(slots):
        start = layout.procs + number * layout.stride
        data[start : start + len(text)] = text
    data[layout.proc_num : layout.proc_num + len(tail)] = tail
    with tempfile.TemporaryFile() as file:
        file.write(data if size is None else data[:size])
        file.flush()
        try:
            found = region.read(file.fileno(), no_pause)
        except region.RegionError:
            return
    assert len(found.devices) <= 16
    assert found.processes <= 1024
    assert all(device.uuid.isascii() for device in found.devices)


def test_the_players_map_is_what_the_reader_sees(tmp_path: Path) -> None:
    path = write(tmp_path / "a.cache", content(switch=1, recent=0))
    library = Library(path)
    assert library.launch(1_700_000_000) == "held"
    with opened(path) as file:
        found = region.read(file)
    library.close()
    assert (found.words, found.last_kernel_s) == (Words(2, 1), 1_700_000_000)
