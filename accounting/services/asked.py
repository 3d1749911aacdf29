"""What was heard of kube-scheduler: about whom it asked first lately, and whom it has reached, out of what is recorded
anyway. Any process may look, and one that has just started sees the same. Must not know: what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Min

from accounting import ledger
from accounting.models import Pod, PodState, Refusal, Trace
from hami_platform.domain import queueing
from hami_platform.domain.view import View

LOOKED_AT = 300
"""Of the last minute's decisions the newest; in a burst those of a part of it, which is as good."""
ASKED = ("placed", "refused", "error")
PLACED = frozenset({PodState.RESERVED, PodState.BINDING, PodState.BOUND, PodState.RUNNING})


class Refused(NamedTuple):
    """A row of `Refusal`, as far as waking goes by it. revision: 0 where it was woken and never refused."""

    revision: int
    at: datetime
    since: datetime
    candidates: list[str] | None
    woken_revision: int
    woken_at: datetime | None


def refusals() -> dict[str, Refused]:
    """By pod. Every tick reads all of them."""
    rows = Refusal.objects.filter(cluster=ledger.cluster_id()).order_by()
    return {uid: Refused(*columns) for uid, *columns in rows.values_list("pod_uid", *Refused._fields)}


class Asked:
    """Looks when it is first needed, and once: few plans have a pod that nobody asked about for a minute."""

    def __init__(self, view: View, refusals: Mapping[str, Refused], now: datetime) -> None:
        self._view, self._refusals, self._now = view, refusals, now
        self._heard: queueing.Heard | None = None

    def stands(self, priority: int, since_s: float) -> bool:
        """Whether a pod that came to kube-scheduler's queue then, and was not asked about since, may stand in it."""
        now_s = self._now.timestamp()
        if now_s - since_s <= queueing.QUIET_S:
            return True
        if self._heard is None:
            self._heard = _heard(self._view, self._refusals, self._now)
        return self._heard.stands(priority, since_s, now_s)


def _heard(view: View, refusals: Mapping[str, Refused], now: datetime) -> queueing.Heard:
    refused = {uid: row for uid, row in refusals.items() if row.revision}
    times = [row.at for row in refused.values()]
    last_s = max(times).timestamp() if times else None
    return queueing.heard(_first(view, now), behind=_behind(view, refused), last_s=last_s)


def _first(view: View, now: datetime) -> list[queueing.Question]:
    """The first questions of the last minute. A decision of another kind about the same pod is a row of its own."""
    cluster, since = ledger.cluster_id(), now - timedelta(seconds=queueing.QUIET_S)
    newest = Trace.objects.filter(cluster=cluster, verdict__in=ASKED).order_by("-id")
    uids = {uid for uid, at in newest.values_list("pod_uid", "first_at")[:LOOKED_AT] if at > since}
    decided = Trace.objects.filter(cluster=cluster, verdict__in=ASKED, pod_uid__among=uids).order_by()
    began = decided.values_list("pod_uid").annotate(Min("first_at"))
    first = {uid: at.timestamp() for uid, at in began if at > since}
    came = _came(view, first)
    return [queueing.Question(at_s, *came[uid]) for uid, at_s in first.items() if uid in came]


def _came(view: View, uids: Iterable[str]) -> dict[str, tuple[int, float]]:
    """Priority of each pod, and when it was created; of those that have ended, too."""
    rows = {uid: view.pod(uid) for uid in uids}
    found = {uid: (row.priority, row.created_at_s) for uid, row in rows.items() if row is not None}
    ended = Pod.objects.filter(cluster=ledger.cluster_id(), uid__among=[uid for uid in rows if uid not in found])
    for uid, priority, created_at in ended.values_list("uid", "priority", "created_at").order_by():
        if created_at is not None:
            found[uid] = (priority, created_at.timestamp())
    return found


def _behind(view: View, refused: Mapping[str, Refused]) -> Iterator[tuple[int, float]]:
    """(priority, when it came to the queue) of who was asked about. A refused pod that is asked about again came back
    to the queue at an earlier refusal, the first one at the earliest."""
    for row in view.pods.values():
        if row.state in PLACED and not row.unmanaged:
            yield row.priority, row.created_at_s
        elif (refusal := refused.get(row.uid)) is not None:
            yield row.priority, row.created_at_s
            if (refusal.at - refusal.since).total_seconds() > queueing.SLACK_S:
                yield row.priority, refusal.since.timestamp()
