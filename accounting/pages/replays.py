"""One decision, taken again when somebody looks."""

from __future__ import annotations

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
from accounting.services import replay, replay_told

OUTCOMES: Final[dict[str, tuple[str, Promise]]] = {
    "same": ("ok", _("the same")),
    "different": ("bad", _("another one")),
    "unknown": ("warn", _("cannot be known")),
}
"""Outcome → (how the chip looks, words)."""
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

    def content() -> dict[str, Any]:
        told = found()
        for one in told["changes"] or ():
            one["part"] = PARTS[one["part"]]
        return {"told": told, "look": OUTCOMES[told["outcome"]], "of_pod": not trace.pod_uid.startswith("denied-")}

    tables: csv_tables.Tables = {
        "decision": lambda: _then_and_again(found()),
        "differences": lambda: found()["differences"],
        "changes": lambda: found()["changes"] or (),
    }
    # Taking a decision over thousands of nodes again costs half a second: once, when the page is opened.
    stamp = f"decision-{trace.pk}-{trace.last_at.timestamp()}"
    title = gettext("A decision, taken again")
    return live_page(request, "decision", view, content, title=title, nav="pods", stamp=stamp, tables=tables)


def _then_and_again(told: dict[str, Any]) -> csv_tables.Rows:
    again = told["again"] or {}
    for when, of, digest in (("then", told, told["inputs_hash"]), ("again", again, told["hash_again"])):
        yield {
            "when": when,
            "verdict": of.get("verdict"),
            "reason": of.get("reason"),
            "summary": of.get("summary"),
            "inputs_hash": digest,
        }
