"""Every test starts without a View and without a remembered cluster: the test before rolled its database back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from accounting import ledger, live_view


@pytest.fixture(autouse=True)
def no_view_of_another_database() -> Iterator[None]:
    """Forget what this process remembers of the database."""
    ledger.forget_cluster()
    live_view.forget()
    yield
    ledger.forget_cluster()
    live_view.forget()
