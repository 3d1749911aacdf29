"""What HAMi v2.10.0 answered about each vendor's devices, replayed through the product; our decided answers aside."""

from __future__ import annotations

import pathlib

import pytest

from hami_platform.domain.vendors import registry
from tests.conformance import command

GOLDEN = command.ROOT / "tests" / "golden" / "vendors"
FILES = sorted(GOLDEN.glob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_vendor_is_served_as_recorded(file: pathlib.Path) -> None:
    found = command.conformance(file)
    told = command.lines(found)
    bad = [line for line in told if line.startswith(("FAILED", "UNDECIDED"))]
    assert not bad
    assert found.returncode == 0
    words = [vendor.word for vendor in registry.all_vendors()]
    skipped = [line for line in told if line.startswith("SKIPPED")]
    assert not [line for line in skipped if any(f"vendor {word} " in line for word in words)]
