"""What is loaded is kept from the garbage collector, and it looks seldom."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from hami_platform import collector


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_a_process_that_serves_looks_for_garbage_seldom_but_does() -> None:
    collector.calm()
    assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_threshold() == (collector.YOUNG, collector.OLDER, collector.OLDER)
