"""Pods: the list, and one pod with its shares, its decisions and its life."""

from __future__ import annotations

import itertools
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from accounting import ledger
from accounting.models import Pod, PodState, Trace
from accounting.pages import csv_rows, csv_tables, why
from accounting.pages.shell import console, live_page, view_now
from accounting.selectors import access, activity, measured, pods
from accounting.selectors.cluster import WAITING_STATES
from hami_platform.domain.wire import pod_request

SHOWN = 200
STATES = ("pending", *(state.value for state in PodState if state != PodState.ENDED), pods.UNMANAGED)
DECISIONS = 20
FILTERS = ("state", "namespace", "node", "reason", "text")


@console
def pod_list(request: HttpRequest) -> HttpResponse:
    """Live pods that ask for devices; `state=pending` for those that wait, with their reasons."""
    view, reach = view_now(), access.reach_for(request)
    chosen = {name: request.GET.get(name, "").strip() for name in FILTERS}

    def content() -> dict[str, Any]:
        lines, count = pods.pod_page(view, reach, **chosen, most=SHOWN)
        waiting = pods.pod_lines(view, reach, state="pending", namespace=chosen["namespace"])
        return {
            "lines": lines,
            "count": count,
            "reasons": pods.by_reason(waiting),
            "denied": pods.denied(reach, namespace=chosen["namespace"]),
            "chosen": chosen,
            "states": STATES,
        }

    tables = {"pods": lambda: map(csv_rows.pod, pods.pod_page(view, reach, **chosen, most=None)[0])}
    return live_page(request, "pods", view, content, title=_("Pods"), nav="pods", tables=tables)


@console
def pod(request: HttpRequest, key: str) -> HttpResponse:
    """One pod, by uid or claim id, also after it has ended."""
    view, reach = view_now(), access.reach_for(request)
    found = Pod.objects.filter(Q(uid=key) | Q(claim_id=key), cluster=ledger.cluster_id()).order_by("-pk").first()
    if found is None:
        raise Http404(f"no pod {key}")
    if not reach.sees(found.namespace):
        raise PermissionDenied(_("You have no role in the namespace %(name)s.") % {"name": found.namespace})

    def content() -> dict[str, Any]:
        row = view.pods.get(found.pk)
        used, missing = measured.pod_measured(uid=found.uid, node=row.node if row else "")
        return {
            "pod": found,
            "row": row,
            "held": sorted(row.held.items()) if row else [],
            "asks": pods.request_text(pod_request.decode(found.request)),
            "shares": list(found.shares.all()),
            "traces": list(_decisions(found)[:DECISIONS]),
            "timeline": activity.timeline(found),
            "measured": used,
            "unmeasured": missing,
            "why": why.why(view, reach, row) if row is not None and row.state in WAITING_STATES else None,
        }

    live = view.pods.get(found.pk)
    tables: csv_tables.Tables = {
        "held": lambda: itertools.starmap(csv_rows.held, sorted(live.held.items()) if live else ()),
        "shares": lambda: map(csv_rows.share, found.shares.all()),
        "measured": lambda: map(csv_rows.measured, measured.pod_measured(uid=found.uid, node=found.node)[0]),
        "decisions": lambda: map(csv_rows.decision, _decisions(found)),
    }
    return live_page(request, "pod", view, content, title=str(found), nav="pods", uid=found.uid, tables=tables)


def _decisions(found: Pod) -> QuerySet[Trace]:
    """Newest first. At admission a pod has no uid, so that its claim stands for it."""
    decided_as = {found.uid, found.claim_id} - {""}
    return Trace.objects.filter(cluster=ledger.cluster_id(), pod_uid__in=decided_as)
