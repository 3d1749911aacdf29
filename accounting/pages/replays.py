"""One decision, taken again when somebody looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounting import ledger
from accounting.models import Trace
from accounting.pages import csv_tables, why
from accounting.pages.shell import console, live_page, view_now
from accounting.selectors import access
from accounting.services import decision_changes, replay, replay_told

OUTCOMES: Final[dict[str, tuple[str, Promise]]] = {
    "same": ("ok", _("the same")),
    "different": ("bad", _("another one")),
    "unknown": ("warn", _("cannot be known")),
}
"""Outcome → (how the chip looks, words)."""
ALL_CHANGES: Final = 1_000_000
PARTS: Final[dict[str, Promise]] = {
    "request": _("request"),
    "limits": _("limits"),
    "nodes": _("nodes"),
    "policy": _("policy"),
    "configuration": _("device configuration"),
}


@console
def decision(request: HttpRequest, trace_id: int) -> HttpResponse:
    """Whether the same inputs give the same answer, and which of them are others today."""
    view, reach = view_now(), access.reach_for(request)
    trace = Trace.objects.filter(pk=trace_id, cluster=ledger.cluster_id()).first()
    if trace is None:
        raise Http404(f"no decision {trace_id}")
    if not reach.sees(trace.namespace):
        raise PermissionDenied(gettext("You have no role in the namespace %(name)s.") % {"name": trace.namespace})

    def found() -> dict[str, Any]:
        return replay_told.told(trace, replay.replayed(trace, view), why.tell)

    def told(most: int = decision_changes.MOST) -> dict[str, Any]:
        return replay_told.told(trace, replay.replayed(trace, view, most=most), why.tell)

    def content() -> dict[str, Any]:
        found = told()
        for one in found["changes"] or ():
            one["part"] = PARTS[one["part"]]
        return {"told": found, "look": OUTCOMES[found["outcome"]], "of_pod": not trace.pod_uid.startswith("denied-")}

    # Taking a decision over thousands of nodes again costs half a second: once, when the page is opened.
    stamp = f"decision-{trace.pk}-{trace.last_at.timestamp()}"
    tables: csv_tables.Tables = {
        "decision": lambda: _both(told()),
        "differences": lambda: told()["differences"],
        "changes": lambda: told(ALL_CHANGES)["changes"] or (),
    }
    title = gettext("A decision, taken again")
    return live_page(request, "decision", view, content, title=title, nav="pods", stamp=stamp, tables=tables)


def _both(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Then, and again if it could be taken."""
    names = ("verdict", "reason", "summary")
    yield {"when": "then", **{name: told[name] for name in names}, "inputs_hash": told["inputs_hash"]}
    if told["again"]:
        yield {"when": "again", **{name: told["again"][name] for name in names}, "inputs_hash": told["hash_again"]}
