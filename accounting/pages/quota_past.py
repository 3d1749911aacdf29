"""Limits as they were at an earlier time, beside those of today."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from accounting import ledger
from accounting.models import Quota
from accounting.pages import csv_tables
from accounting.pages.shell import console, live_page, view_now
from accounting.selectors import access, quota_history

AT = "%Y-%m-%dT%H:%M"
COMPARED = (*Quota.LIMITS, "vendor", "model_pattern", "in_force")


@dataclass(frozen=True, slots=True)
class Then:
    """One quota as it was; `now` as it is today, none where it is gone. Of both, what they limit, in words."""

    then: Quota
    now: Quota | None
    limits: list[tuple[str, Any, Any]]

    @property
    def same(self) -> bool:
        """Whether nothing that counts has changed since."""
        return self.now is not None and all(getattr(self.then, n) == getattr(self.now, n) for n in COMPARED)


@console
def quotas_as_of(request: HttpRequest) -> HttpResponse:
    """`?at=2026-05-03T00:00`, UTC; a week ago without it."""
    view, reach = view_now(), access.reach_for(request)
    now = ledger.database_time()
    at, problem = _asked(request.GET.get("at", ""), now)

    def content() -> dict[str, Any]:
        today = {row.pk: row for row in quota_history.quotas_as_of(now, reach)}
        then = quota_history.quotas_as_of(at, reach)
        lines = [Then(row, today.get(row.pk), _limits(row, today.get(row.pk))) for row in then]
        known = {row.pk for row in then}
        newer = [row for key, row in today.items() if key not in known]
        return {"at": at, "entered": at.strftime(AT), "lines": lines, "newer": newer, "problem": problem}

    def table() -> csv_tables.Rows:
        for one in content()["lines"]:
            for what, then, today in one.limits:
                yield {"limit_of": str(one.then), "limit": what, "at": at.isoformat(), "then": then, "now": today}

    title, tables = _("Limits at an earlier time"), {"limits": table}
    return live_page(request, "quotas_as_of", view, content, title=title, nav="quotas", tables=tables)


def _asked(text: str, now: datetime) -> tuple[datetime, str]:
    """The time, and what is wrong with what was entered."""
    usual = now - timedelta(days=7)
    if not text:
        return usual, ""
    try:
        at = datetime.strptime(text, AT).replace(tzinfo=UTC)
    except ValueError:
        return usual, _("Enter a time such as 2026-05-03T00:00 (UTC).")
    return at, ""


def _limits(then: Quota, now: Quota | None) -> list[tuple[str, Any, Any]]:
    """(what, then, now) of every limit that is set in one of the two."""
    names = {field.name: str(field.verbose_name) for field in Quota._meta.fields}
    found = [(names[name], getattr(then, name), getattr(now, name, None)) for name in Quota.LIMITS]
    return [one for one in found if one[1] is not None or one[2] is not None]
