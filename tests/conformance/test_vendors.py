"""Recorded vectors of the vendors beside NVIDIA: each passes with HAMi's answer, or with ours where that is decided."""

from __future__ import annotations

import json

import pytest

from tests.conformance import command

VENDORS = command.GOLDEN.with_name("vendors")
GROUPS = {
    "ascend": "Ascend*",
    "kunlun": "[kX][uP]*",
}


@pytest.mark.timeout(300)  # hundreds of vectors, each on a database of its own
@pytest.mark.parametrize("group", GROUPS)
def test_recorded_vectors_pass_or_are_decided(group: str) -> None:
    files = sorted(VENDORS.glob(f"vendor-{GROUPS[group]}.json"))
    found = command.conformance(*files)
    told = command.lines(found)
    assert [line for line in told if line.startswith(("FAILED", "UNDECIDED", "SKIPPED"))] == []
    assert found.returncode == 0, found.stderr
    total = sum(len(json.loads(file.read_text())["vectors"]) for file in files)
    assert told[-1] == f"{total} passed, 0 failed"
