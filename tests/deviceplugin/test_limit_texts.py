"""What the library makes of the limits that a container is handed: the same bytes as the ledger counts.

`as_the_library` reads a limit's text by HAMi-core's rules: a C integer in any base, with g, m or k; what is wrong is 0,
which means no limit.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin import grants, monitor_claims, monitor_pods
from deviceplugin.region import DeviceUse, Region, Words
from deviceplugin.region_layout import V1
from tests.deviceplugin.builders import GPU_A, GPU_B, pod, row, typed

MIB = 1 << 20
U64 = 2**64


def as_the_library(text: str) -> int:
    found = re.fullmatch(r"\s*(0[xX][0-9a-fA-F]+|\d+)([gGmMkK]?)", text)
    if found is None:
        return 0
    digits = found[1]
    base = 16 if digits[:2].lower() == "0x" else 8 if digits.startswith("0") else 10
    try:
        number = int(digits, base)
    except ValueError:
        return 0
    value = number * {"g": 1 << 30, "m": MIB, "k": 1 << 10}.get(found[2].lower(), 1)
    return value if value < U64 else 0


@pytest.mark.parametrize(
    "text, expected",
    [
        ("8000m", 8_388_608_000),
        ("1g", 1_073_741_824),
        ("1G", 1_073_741_824),
        ("2048", 2048),
        ("0x10k", 16_384),
        ("010k", 8192),
        ("", 0),
        ("0m", 0),
        ("9z", 0),
        ("99999999999999g", 0),
    ],
)
def test_the_librarys_reading_of_a_limit(text: str, expected: int) -> None:
    assert as_the_library(text) == expected


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=2))
def test_the_library_the_monitor_and_the_ledger_mean_the_same_bytes(amounts: list[int]) -> None:
    uuids = (GPU_A, GPU_B)[: len(amounts)]
    reserved = [
        grants.Reserved(uuid, mib, 10, index) for index, (uuid, mib) in enumerate(zip(uuids, amounts, strict=True))
    ]
    envs = grants.shared(reserved, grants.Target("uid", "main", {}), grants.Enforcement(), cache="c").envs
    told = [as_the_library(envs[f"CUDA_DEVICE_MEMORY_LIMIT_{index}"]) for index in range(len(amounts))]
    assert told == [mib * MIB for mib in amounts]
    text = row(*((uuid, mib, 10) for uuid, mib in zip(uuids, amounts, strict=True)))
    value = typed(pod(rows=text, annotations={monitor_pods.ALLOCATED: text}))
    due = monitor_pods.entitlement(value, value.spec.containers[0], None)
    assert [due.limits_bytes[uuid] for uuid in uuids] == told
    devices = tuple(DeviceUse(n, uuid, limit, 10) for n, (uuid, limit) in enumerate(zip(uuids, told, strict=True)))
    found = Region(V1, devices, 1, monitor_pods.DEFAULT_PRIORITY, Words(0, 0), 0)
    assert monitor_claims.believe(found, due, {}).problems == frozenset()
