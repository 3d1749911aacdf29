"""Which waiting pods to wake, so that freed devices and raised quotas reach them within seconds, and nobody is woken
in vain.

kube-scheduler asks again about a pod when the pod changes. A wake is therefore one patch of one pod, made only when a
placement would succeed on the View now; each woken pod is folded in tentatively, so one freed device wakes one pod.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models import Max, Q

from accounting import ledger, live_view
from accounting.models import Journal, Pod, PodState, Refusal
from accounting.services import adoption, asked, claims, placements
from hami_platform.domain import place
from hami_platform.domain.rows import Changes, PodRow
from hami_platform.domain.view import View

FREEING_KINDS = frozenset({"node", "device", "hold", "quota", "native", "namespace", "tenant", "lock", "clock"})
FREEING_STATES = frozenset({PodState.ENDED, PodState.CLAIMED, PodState.WAITING, PodState.RUNNING, PodState.BOUND})

LATE_S = 3.0
"""How much later than the freeing the record of a refusal may come that was decided before it."""
LOOK_S = 10.0
"""Between two looks at refused pods while nothing is freed."""

ANSWER_S = 10
"""How long a woken pod counts as placed before kube-scheduler has asked about it."""


@dataclass(frozen=True, slots=True)
class Wake:
    """One pod to wake. ungate: take our scheduling gate off, instead of a changed annotation.

    history: which of the ledger's histories the revision is of; a restored one counts the same numbers again.
    """

    uid: str
    namespace: str
    name: str
    revision: int
    ungate: bool
    history: str = ""

    @property
    def retry_at(self) -> str:
        """A text that the pod's annotation has never had: only a change wakes."""
        return f"{self.revision}-{self.history}" if self.history else str(self.revision)


class Freed:
    """The last revision that may have freed something, followed through the Journal. One per process."""

    def __init__(self) -> None:
        self._read = 0
        self._history = ""
        self._freed_at = self._planned_at = 0.0
        self.revision = 0

    def follow(self, view: View) -> int:
        """The freeing revision as of this View; at first use, and in another history, everything counts as just
        freed."""
        if not self._read or self._history != view.clock.incarnation:
            self.revision, self._history = view.clock.revision, view.clock.incarnation
            self._freed_at = time.monotonic()
        else:
            freeing = Q(kind__in=FREEING_KINDS) | Q(kind="pod", values__state__in=FREEING_STATES)
            since = Journal.objects.filter(
                freeing, cluster=ledger.cluster_id(), revision__gt=self._read, revision__lte=view.clock.revision
            )
            last = since.aggregate(last=Max("revision"))["last"] if self._read < view.clock.revision else None
            if last is not None:
                self.revision, self._freed_at = last, time.monotonic()
        self._read = view.clock.revision
        return self.revision

    def worth_a_look(self) -> bool:
        """Whether refused pods may have to be woken: something was freed lately, or nobody looked for a while."""
        now = time.monotonic()
        if now - self._freed_at > LATE_S and now - self._planned_at < LOOK_S:
            return False
        self._planned_at = now
        return True


def wake_plan(freed: Freed, *, fence: int | None = None) -> list[Wake]:
    """The pods to wake now, best first; waiting ones have got their claim when they are in it. Each is returned by
    one process and once per freeing revision only. Nobody is woken before a full compare: /filter could only say so.
    """
    view = live_view.live().refresh()
    if not view.ready:
        return []
    revision = freed.follow(view)
    ungated = _ungate(view, fence)
    if not freed.worth_a_look():
        return ungated
    return ungated + list(_retry(live_view.live().refresh(), revision))


def _ungate(view: View, fence: int | None) -> list[Wake]:
    """Gated pods whose claim succeeds now, and claimed ones that still carry the gate."""
    found = []
    for row in _in_order(row for row in view.pods.values() if row.gated and row.uid):
        if row.state == PodState.WAITING and not _claimed(row, fence):
            continue
        if row.state in (PodState.WAITING, PodState.CLAIMED):
            found.append(Wake(row.uid, row.namespace, row.name, view.clock.revision, ungate=True))
    return found


def _claimed(row: PodRow, fence: int | None) -> bool:
    """Whether a waiting pod gets its claim now. Judged on the View first: no Clock is taken for those that will not."""
    view = live_view.live().refresh()
    if claims.judge(view, row.namespace, claims.price(view, row.request), without=row.id).stops:
        return False
    with ledger.transaction(cause="wake_claim", fence=fence) as entry:
        pod = Pod.objects.filter(pk=row.id, state=PodState.WAITING).first()
        return pod is not None and adoption.claim_again(entry, live_view.live().refresh(), pod)


def _retry(view: View, freed_revision: int) -> Iterator[Wake]:
    """Refused pods that would be placed now and have not been woken since something was freed.

    A pod that was woken and has not been asked about since still counts as placed, for a while: its device is spoken
    for.
    """
    waiting = _in_order(_waiting(view))
    if not waiting:
        return
    now, refusals = ledger.database_time(), asked.refusals()
    queue = asked.Asked(view, refusals, now)
    hopeless: set[object] = set()  # the View only fills up below: what does not fit now will not
    for row in waiting:
        refusal = refusals.get(row.uid)
        expected = refusal is not None and _expected(refusal, now)
        if not expected and not _asleep(row, refusal, freed_revision, queue):
            continue
        candidates = _candidates(view, refusal)
        shape = (row.namespace, row.request, candidates)
        if shape in hopeless:
            continue
        placement = _placed(view, row, tuple(view.states) if candidates is None else candidates)
        if placement is None:
            hopeless.add(shape)
            continue
        view = _with(view, row, placement)
        if not expected and _won(row, freed_revision, now):
            history = view.clock.incarnation[-6:]
            yield Wake(row.uid, row.namespace, row.name, freed_revision, ungate=False, history=history)


def _waiting(view: View) -> Iterator[PodRow]:
    waits = (PodState.CLAIMED, PodState.WAITING)
    return (row for row in view.pods.values() if row.uid and not row.gated and row.state in waits)


def _asleep(row: PodRow, refusal: asked.Refused | None, freed_revision: int, queue: asked.Asked) -> bool:
    """Whether its last refusal and its last wake lie before the freeing revision, and it does not stand in
    kube-scheduler's queue: never asked about, or not since it was woken. A patch would only cost kube-scheduler time
    there. A record that was lost looks like that too, until those behind it were asked about."""
    if refusal is None:
        return not queue.stands(row.priority, row.created_at_s)
    if max(refusal.revision, refusal.woken_revision) >= freed_revision:
        return False
    woken = refusal.woken_at if refusal.woken_revision > refusal.revision else None
    return woken is None or not queue.stands(row.priority, woken.timestamp())


def _expected(refusal: asked.Refused, now: datetime) -> bool:
    """Whether it was woken a moment ago and kube-scheduler has yet to ask about it."""
    if refusal.woken_at is None or refusal.woken_revision <= refusal.revision:
        return False
    return now - refusal.woken_at < timedelta(seconds=ANSWER_S)


def _won(row: PodRow, freed_revision: int, now: datetime) -> bool:
    """Whether this process is the one to wake the pod for this freeing."""
    cluster = ledger.cluster_id()
    Refusal.objects.get_or_create(cluster_id=cluster, pod_uid=row.uid, defaults={"at": now, "since": now})
    asleep = Refusal.objects.filter(cluster=cluster, pod_uid=row.uid, woken_revision__lt=freed_revision)
    return bool(asleep.update(woken_revision=freed_revision, woken_at=now))


def _candidates(view: View, refusal: asked.Refused | None) -> tuple[str, ...] | None:
    """The nodes that kube-scheduler left when it last asked, where it showed all of them; None: any. Should others come
    to suit the pod, kube-scheduler notices by itself: it asks again at every change of a node."""
    if refusal is None or refusal.candidates is None:
        return None
    return tuple(name for name in refusal.candidates if name in view.states)


def _placed(view: View, row: PodRow, candidates: Sequence[str]) -> place.Placement | None:
    """Where the pod would go if kube-scheduler offered these nodes. A waiting pod must get its claim first."""
    unclaimed = row.state == PodState.WAITING and not row.suspended
    if unclaimed and claims.judge(view, row.namespace, claims.price(view, row.request), without=row.id).stops:
        return None
    decision = place.place(
        view.states,
        candidates,
        row.request,
        defaults=placements.defaults(),
        strategies=placements.strategies(),
        headroom=claims.with_limits_counted(view, row.namespace, without=row.id),
    )
    return decision.placement


def _with(view: View, row: PodRow, placement: place.Placement) -> View:
    """The View as if the pod were reserved there."""
    tentative = replace(row, state=PodState.RESERVED, node=placement.node, shares=placement.shares)
    return view.fold(Changes(pods={row.id: tentative}))


def _in_order(rows: Iterable[PodRow]) -> list[PodRow]:
    """Priority, then age, then uid."""
    return sorted(rows, key=lambda row: (-row.priority, row.created_at_s, row.uid))
