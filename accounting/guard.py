"""The one switch that says whether this thread may write ledger rows.

It must know neither models nor databases: models ask it, `ledger.transaction` turns it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class LedgerWriteRefused(RuntimeError):
    """Somebody tried to write a ledger row outside `ledger.transaction()`. The programmer's fault."""


_state = threading.local()


def writable() -> bool:
    """Whether this thread is inside a ledger transaction."""
    return getattr(_state, "depth", 0) > 0


def check(what: str) -> None:
    """Raise LedgerWriteRefused unless this thread is inside a ledger transaction."""
    if not writable():
        raise LedgerWriteRefused(f"{what} outside ledger.transaction(): call a service instead")


@contextmanager
def writing() -> Iterator[None]:
    """Allow writes of ledger rows in this thread while the block runs."""
    _state.depth = getattr(_state, "depth", 0) + 1
    try:
        yield
    finally:
        _state.depth -= 1
