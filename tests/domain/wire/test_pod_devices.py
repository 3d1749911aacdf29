"""The allocation string: golden vectors, H39 to H44, the strict reading, and alignment with containers."""

from __future__ import annotations

from typing import Any

import pytest

from hami_platform.domain import errors
from hami_platform.domain.wire import pod_devices
from tests.domain import golden

WORDS = {
    "hami.io/vgpu-devices-allocated": "NVIDIA",
    "hami.io/dcu-devices-allocated": "DCU",
    "hami.io/kunlun-allocated": "kunlun",
}
STRICT = {
    "codec-pod-013": "a part without a comma",
    "codec-pod-015": "negative amounts",
    "codec-pod-018": "a part without a comma",
}
"""Accepted by v2.10.0, refused since its #2765 and by us."""
EMPTY_SLOT = "codec-pod-016"
"""`,,0,0:` is an empty slot here (H41), a device without uuid in v2.10.0."""


def row(uuid: str, memory_mib: int, core_percent: int, vendor: str = "NVIDIA") -> pod_devices.Row:
    return pod_devices.Row(uuid, vendor, memory_mib, core_percent)


CASES = golden.steps("codec-pod", op="codec")


@pytest.mark.parametrize("name, step, expected", CASES, ids=[case[0] for case in CASES])
def test_golden_allocation_strings(name: str, step: dict[str, Any], expected: dict[str, Any]) -> None:
    for key, text in step["annotations"].items():
        if expected.get("error") or name in STRICT:
            with pytest.raises(errors.WireError):
                pod_devices.decode(text)
        elif name != EMPTY_SLOT:
            word = WORDS[key]
            # HAMi counts the tail behind the last terminator as one more, empty container.
            theirs = [[list(one) for one in slot] for slot in expected["rows"][word]]
            ours = [[list(one) for one in slot] for slot in pod_devices.decode(text)]
            assert ours == (theirs[:-1] if text.endswith(";") else theirs)


def test_h39_a_leading_init_without_devices_keeps_its_place() -> None:
    rows = ((), (row("GPU-A", 2500, 25),), (row("GPU-B", 2500, 25),))
    assert pod_devices.encode(rows) == ";GPU-A,NVIDIA,2500,25:;GPU-B,NVIDIA,2500,25:;"


def test_h40_the_tail_behind_the_last_terminator_is_no_container() -> None:
    rows = pod_devices.decode(";;GPU-a,NVIDIA,3000,30:GPU-b,NVIDIA,3000,30:;")
    assert rows == ((), (), (row("GPU-a", 3000, 30), row("GPU-b", 3000, 30)))


def test_h41_the_old_spelling_of_nothing_is_read_and_not_written() -> None:
    rows = pod_devices.decode(",,0,0:;GPU-a,NVIDIA,1000,0:;")
    assert rows == ((), (row("GPU-a", 1000, 0),))
    assert pod_devices.encode(rows) == ";GPU-a,NVIDIA,1000,0:;"


def test_h43_a_short_device_is_an_error_that_names_its_slot() -> None:
    with pytest.raises(errors.WireError, match="slot 1, device 0: 4 fields") as caught:
        pod_devices.decode(";GPU-a,NVIDIA,1000:;")
    assert caught.value.field == "slot 1, device 0"


def test_h44_each_vendor_has_a_row_for_every_container() -> None:
    assert pod_devices.encode(((row("GPU-a", 1000, 10),), ())) == "GPU-a,NVIDIA,1000,10:;;"
    assert pod_devices.encode(((), (row("MLU-x", 2000, 20, "MLU"),))) == ";MLU-x,MLU,2000,20:;"


@pytest.mark.parametrize(
    "text",
    [
        "GPU-a,,1,1:;",
        ",NVIDIA,1,1:;",
        "GPU-a,NVIDIA,-1,1:;",
        "GPU-a,NVIDIA,1,-1:;",
        "junk:;",
        "GPU-a,NVIDIA,2147483648,1:;",
        "GPU-a,NVIDIA,1 ,1:;",
        "GPU-a,NVIDIA,1_0,1:;",
        "GPU-a,NVIDIA,٣,1:;",
        ",,0,1:;",
    ],
)
def test_what_cannot_be_booked_is_refused(text: str) -> None:
    with pytest.raises(errors.WireError, match="slot 0, device 0"):
        pod_devices.decode(text)


@pytest.mark.parametrize(
    "text",
    ["GPU-a,NVIDIA,3000,30:;", "GPU-a,NVIDIA,3000,30:", "GPU-a,NVIDIA,3000,30", "GPU-a,NVIDIA,+3000,30,extra,fields:;"],
)
def test_missing_tails_and_extra_fields_are_tolerated(text: str) -> None:
    assert pod_devices.decode(text) == ((row("GPU-a", 3000, 30),),)


def test_no_text_is_no_row() -> None:
    assert pod_devices.decode("") == ()
    assert pod_devices.encode(()) == ""


@pytest.mark.parametrize(
    "bad", [row("", 1, 1), row("a,b", 1, 1), row("a:b", 1, 1), row("a;b", 1, 1), row("a", -1, 1), row("a", 1, 2**31)]
)
def test_a_row_that_would_not_come_back_is_not_written(bad: pod_devices.Row) -> None:
    with pytest.raises(errors.WireError, match="slot 1, device 0"):
        pod_devices.encode(((), (bad,)))


def test_rows_align_only_when_no_container_is_missing() -> None:
    a = (row("GPU-a", 1000, 10),)
    assert pod_devices.align((a,), 1) == (a,)
    assert pod_devices.align((a, (), ()), 1) == (a,)
    assert pod_devices.align((a,), 2) is None
    assert pod_devices.align((a, a), 1) is None
    assert pod_devices.align((), 0) == ()


@pytest.mark.parametrize(
    "uuid, expected",
    [("GPU-a[0-2]", "GPU-a"), ("GPU-a", "GPU-a"), ("GPU-a[0]", "GPU-a[0]"), ("[1-2]-a", "[1-2]-a")],
)
def test_an_instance_of_hami_before_v2_10_is_of_the_card_it_names(uuid: str, expected: str) -> None:
    ((row,),) = pod_devices.decode(f"{uuid},NVIDIA,4864,14:;")
    assert row.uuid == uuid
    assert pod_devices.card(row.uuid) == expected
