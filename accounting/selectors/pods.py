"""Pods as people look for them: lists, and why those without a device wait."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.utils.translation import gettext

from accounting import ledger
from accounting.models import DeniedAsk, Refusal
from accounting.selectors import holders
from accounting.selectors.access import Reach, visible
from accounting.selectors.cluster import WAITING_STATES
from hami_platform.domain.quota import Amounts
from hami_platform.domain.requests import DeviceRequest, PodRequest
from hami_platform.domain.rows import PodRow
from hami_platform.domain.view import View

NOT_ASKED = "not asked yet"
NO_NAME = "not created yet"
UNMANAGED = "unmanaged"


@dataclass(frozen=True, slots=True)
class PodLine:
    """One pod in a list. reason: the word, why: the sentence, for those that wait."""

    row: PodRow
    reason: str = ""
    why: str = ""
    never: bool = False

    @property
    def key(self) -> str:
        """uid, or claim id."""
        return holders.pod_key(self.row)

    @property
    def name(self) -> str:
        """The pod's name, or that it has none yet."""
        return self.row.name or NO_NAME

    @property
    def asks(self) -> str:
        """What it asks for, in one line."""
        return request_text(self.row.request)

    @property
    def holds(self) -> Amounts:
        """What it takes of its namespace's limits now."""
        total = Amounts()
        for charge in self.row.charges:
            total += charge.amounts
        return total

    @property
    def since(self) -> datetime | None:
        """When it was created."""
        return datetime.fromtimestamp(self.row.created_at_s, UTC) if self.row.created_at_s else None


def pod_lines(view: View, reach: Reach, *, state: str = "", namespace: str = "", node: str = "") -> list[PodLine]:
    """All pods of `pod_page`."""
    return pod_page(view, reach, state=state, namespace=namespace, node=node)[0]


def pod_page(
    view: View,
    reach: Reach,
    *,
    state: str = "",
    namespace: str = "",
    node: str = "",
    reason: str = "",
    text: str = "",
    most: int | None = None,
) -> tuple[list[PodLine], int]:
    """(live pods that the reader may see, those that wait first, then by name, at most so many; how many there are).

    state "pending": waiting or claimed, "unmanaged": those that came past the platform. reason: of those that wait.
    """
    states = WAITING_STATES if state == "pending" else {state} if state else WAITING_STATES if reason else None
    chosen = [
        pod
        for pod in _pods_of(view, node)
        if (states is None or state == UNMANAGED or pod.state in states)
        and (not namespace or pod.namespace == namespace)
        and (state != UNMANAGED or pod.unmanaged)
        and reach.sees(pod.namespace)
        and (not text or text in f"{pod.namespace}/{pod.name} {pod.uid}")
    ]
    if reason:
        refusals = refusals_of(chosen)
        chosen = [pod for pod in chosen if _line(pod, refusals).reason == reason]
    shown = sorted(chosen, key=_order) if most is None else heapq.nsmallest(most, chosen, key=_order)
    refusals = refusals_of(shown)
    return [_line(pod, refusals) for pod in shown], len(chosen)


def pod_line(pod: PodRow) -> PodLine:
    """One pod."""
    return _line(pod, refusals_of([pod]))


def _pods_of(view: View, node: str) -> Iterable[PodRow]:
    if not node:
        return view.pods.values()
    return [view.pods[pod_id] for pod_id in view.pods_by_node.get(node, ())]


def _order(pod: PodRow) -> tuple[bool, str, str, str]:
    return pod.state not in WAITING_STATES, pod.namespace, pod.name or NO_NAME, holders.pod_key(pod)


def by_reason(lines: Iterable[PodLine]) -> list[tuple[str, int]]:
    """How many wait for each reason, most frequent first."""
    counts = Counter(line.reason for line in lines if line.row.state in WAITING_STATES)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def denied(reach: Reach, *, namespace: str = "", limit: int = 20) -> list[DeniedAsk]:
    """Asks that admission denied for quota: their pods do not exist. Newest first."""
    rows = visible(DeniedAsk.objects.filter(cluster=ledger.cluster_id()), reach)
    if namespace:
        rows = rows.filter(namespace=namespace)
    return list(rows[:limit])


def refusals_of(pods: Iterable[PodRow]) -> dict[str, Refusal]:
    """The last refusal of each of these pods that waits."""
    uids = [pod.uid for pod in pods if pod.uid and pod.state in WAITING_STATES]
    if not uids:
        return {}
    rows = Refusal.objects.filter(cluster=ledger.cluster_id())
    if len(uids) <= 500:
        rows = rows.filter(pod_uid__in=uids)
    return {row.pod_uid: row for row in rows}


def request_text(request: PodRequest) -> str:
    """`2 × 10 240 MiB · 30 %` for each container that asks."""
    parts = [ask_text(ask) for container in request.containers for ask in container.devices]
    return " + ".join(parts) or gettext("nothing")


def ask_text(ask: DeviceRequest) -> str:
    """One vendor's ask: how many devices, and what of each."""
    parts = [f"{ask.count} ×"]
    if ask.memory_mib > 0:
        parts.append(f"{grouped(ask.memory_mib)} MiB")
    elif ask.memory_percent is not None:
        parts.append(gettext("%(n)s %% of memory") % {"n": ask.memory_percent})
    if ask.core_percent:
        parts.append("· " + gettext("%(n)s %% of cores") % {"n": ask.core_percent})
    return f"{' '.join(parts)} {ask.vendor}" if len(parts) > 1 else f"{ask.count} × {ask.vendor}"


def grouped(number: int) -> str:
    """Digits in groups of three, with a thin space that does not break."""
    return f"{number:,}".replace(",", "\u202f")


def _line(pod: PodRow, refusals: Mapping[str, Refusal]) -> PodLine:
    if pod.state not in WAITING_STATES:
        return PodLine(pod)
    refusal = refusals.get(pod.uid) if pod.uid else None
    if not pod.uid:
        return PodLine(pod, "creating", gettext("Admitted; its pod has not been seen yet."))
    if pod.gated:
        return PodLine(
            pod,
            "ResourceQuotaNotFit",
            gettext("Waits for quota: it carries the scheduling gate until there is room."),
        )
    if refusal is None:
        return PodLine(pod, NOT_ASKED, gettext("The scheduler has not asked about it since it was admitted."))
    return PodLine(pod, refusal.reason or "refused", refusal.summary, refusal.never_fits)
