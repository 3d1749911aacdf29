"""Budgets: what is planned and what of it is used, each in its running period."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from accounting.selectors import access, budgets
from hami_platform import metrics
from hami_platform.domain.view import View

FRESH_S: Final = 300
"""Hours are long, scrapes are many, and every process that shows figures would sum up for itself."""


def ours(view: View) -> Iterator[str]:
    """As the page shows them, five minutes old at most. The unit is a label: device_hours, or a currency."""
    rows = list(budgets.visible(access.ALL))
    found = [
        (metrics.labels(budget=one.rule, scope=one.scope, scope_kind=one.scope_kind, unit=burn.unit), burn)
        for one in budgets.of_rows(view, rows, access.ALL, fresh_s=FRESH_S)
        for burn in one.burns
    ]
    planned = [(of, float(burn.limit)) for of, burn in found]
    yield from metrics.family("hami_platform_budget_limit", "What a budget plans for its period.", planned)
    used = [(of, float(burn.used)) for of, burn in found]
    yield from metrics.family("hami_platform_budget_used", "What is used of it in the period so far.", used)
    ends = [(of, float(burn.end.middle)) for of, burn in found if burn.end is not None]
    text = "What use comes to by the end of the period, at the mean of the last days."
    yield from metrics.family("hami_platform_budget_forecast", text, ends)
