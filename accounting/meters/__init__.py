"""Figures of the whole cluster and of the ledger, for Prometheus: read from the View and from rows when somebody asks.

To add a figure, write a function from the View to text (`metrics.family`) and name it in `OF_CLUSTER`. They only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from django.db import connection

from accounting import ledger, live_view
from accounting.meters import budgets, cards, migs, pods, quotas, standing
from accounting.services import office
from hami_platform import env, metrics
from hami_platform.domain.view import View

ROLES: Final = frozenset({"webhook", "extender", "watcher", "tool"})
"""Processes that keep a View and show their metrics. Not the console: who reaches it may not see every namespace."""

OF_CLUSTER: Final[tuple[Callable[[View], Iterator[str]], ...]] = (
    cards.hami,
    migs.hami,
    pods.hami,
    pods.by_state,
    pods.shares,
    quotas.hami,
    quotas.ours,
    budgets.ours,
    standing.locks,
    standing.leases,
    standing.findings,
)


def register() -> None:
    """Show them from now on, in the processes that should."""
    if env.current().role in ROLES:
        metrics.provide("process", standing.of_process)
        metrics.provide("cluster", of_cluster)


def of_cluster() -> Iterator[str]:
    """The cluster's figures, all of one revision; none while the ledger cannot be read, since old ones would lie."""
    if not _shown():
        return
    try:
        view = live_view.live().refresh()
        yield from standing.revision(view)
        for figures in OF_CLUSTER:
            yield from figures(view)
    except ledger.LedgerUnavailable:
        return  # hami_platform_breaker_open says so
    finally:
        if not connection.in_atomic_block:
            connection.close()  # a thread of the metrics listener ends after the answer, and nobody else closes it


def _shown() -> bool:
    asked = env.current().cluster_metrics
    return asked == "always" or (asked == "leader" and office.OFFICE.epoch is not None)
