"""Pods that wait, by reason and in the order in which they are woken."""

from __future__ import annotations

import itertools
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from accounting.pages import csv_rows, csv_tables, reasons, why
from accounting.pages.shell import console, live_page, view_now
from accounting.selectors import access, pods
from accounting.services import what_if
from hami_platform.domain import what_if as domain
from hami_platform.domain.view import View

SHOWN = 200
SENTENCES = 20
"""Kinds of pods that are asked about anew; the others show what the scheduler was told last."""
SENTENCE_NODES = 200
"""On larger clusters all of them do."""


@console
def pending(request: HttpRequest) -> HttpResponse:
    """`?reason=` and `?namespace=` narrow the list; the bars count all that the reader may see."""
    view, reach = view_now(), access.reach_for(request)
    chosen = {name: request.GET.get(name, "").strip() for name in ("reason", "namespace")}

    def all_of() -> list[pods.PodLine]:
        return pods.pod_lines(view, reach, state="pending", namespace=chosen["namespace"])

    def of_reason(lines: list[pods.PodLine]) -> list[tuple[int | None, pods.PodLine]]:
        return _in_order(view, [line for line in lines if not chosen["reason"] or line.reason == chosen["reason"]])

    def content() -> dict[str, Any]:
        waiting = all_of()
        lines = of_reason(waiting)
        return {
            "lines": _told(view, lines[:SHOWN]),
            "count": len(lines),
            "waiting": len(waiting),
            "never": sum(line.never for line in waiting),
            "bars": _bars(pods.by_reason(waiting)),
            "denied": pods.denied(reach, namespace=chosen["namespace"]),
            "chosen": chosen,
        }

    tables: csv_tables.Tables = {
        "pending": lambda: itertools.starmap(csv_rows.waiting, _told(view, of_reason(all_of()))),
        "reasons": lambda: ({"reason": code, "pods": count} for code, count in pods.by_reason(all_of())),
    }
    return live_page(request, "pending", view, content, title=_("Pending"), nav="pending", tables=tables)


def _in_order(view: View, lines: list[pods.PodLine]) -> list[tuple[int | None, pods.PodLine]]:
    """(place in the whole queue, pod), the next to be woken first; claims without a pod yet come last."""
    places = {row.id: place for place, row in enumerate(domain.waiting(view), start=1)}
    ordered = sorted(lines, key=lambda line: (places.get(line.row.id, len(places) + 1), line.row.namespace, line.name))
    return [(places.get(line.row.id), line) for line in ordered]


def _told(view: View, lines: list[tuple[int | None, pods.PodLine]]) -> list[tuple[int | None, pods.PodLine, str]]:
    """With the sentence that the pod's page has: worked out once for all pods that ask for the same."""
    said: dict[object, str] = {}
    found = []
    for place, line in lines:
        shape = (line.row.namespace, line.row.request, line.row.state)
        may = len(said) < SENTENCES and len(view.states) <= SENTENCE_NODES and not line.row.unmanaged
        if shape not in said and may:
            said[shape] = why.tell(what_if.sentence(view, line.row))
        found.append((place, line, said.get(shape, line.why)))
    return found


def _bars(counts: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """A bar for each reason, the longest the full width."""
    most = max((count for _, count in counts), default=1)
    return [
        {"code": code, "words": reasons.words(code), "count": count, "width": f"{count * 100 / most:.1f}%"}
        for code, count in counts
    ]
