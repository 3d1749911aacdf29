"""`/filter`: decide on the View, confirm under the Clock, reserve.

A stale choice is decided again on the fresh View while the Clock is held; so what is written was true when it was
committed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from accounting import live_view
from accounting.ledger import Entry
from accounting.models import Pod, PodState
from accounting.services import adoption, claims, device_config, pod_rows, wire_texts
from accounting.services.seen import PodSeen
from hami_platform import env
from hami_platform.domain import crowd, place
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.quota import Excess
from hami_platform.domain.reasons import Reason
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.rows import Changes, PodRow
from hami_platform.domain.strategy import Strategies
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.view import View

NO_CLAIM = "no claim"
"""Said where no limit stops the pod any more, but it did not get a claim in time."""
NOT_READY = "not ready: the ledger has not been compared with the API server yet"
RECENT_S = 0.1
"""A View as old as that will do for a pod that is asked about for the first time: it is decided on under the Clock."""


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """Where the pod goes. error: a fault or a state in which no answer may be given, never "does not fit".

    quota: the sentence about the limit that stops it, where no placement was tried. decision is there then, too, unless
    the limit was raised meanwhile. excess: that limit with its numbers. basis: what the limits were judged on.
    chosen: the decision by which the node was found, where decision only says that it still fits.
    """

    node: str = ""
    decision: place.Decision | None = None
    error: str = ""
    quota: str = ""
    revision: int = 0
    excess: Excess | None = None
    basis: claims.Basis | None = None
    chosen: place.Decision | None = None

    @property
    def reason(self) -> str:
        """The one constant word for a refusal."""
        if self.quota:
            return Reason.RESOURCE_QUOTA_NOT_FIT.value
        return place.dominant_text(self.decision.rejections) if self.decision else ""


class _Refusals:
    """The last refusal of each pod that was taken on the View alone, good for as long as nothing has changed.

    All that it was taken on is compared: where the View stands (its tag tells histories apart), what is asked, and of
    which nodes.
    """

    MOST = 32
    """Each keeps a list of nodes and an older View's states: a megabyte where there are thousands of nodes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[object, FilterAnswer]] = OrderedDict()
        self._lock = threading.Lock()

    def again(self, uid: str, asked: object) -> FilterAnswer | None:
        kept = self._kept.get(uid)
        return kept[1] if kept is not None and kept[0] == asked else None

    def keep(self, uid: str, asked: object, answer: FilterAnswer) -> FilterAnswer:
        with self._lock:
            self._kept[uid] = (asked, answer)
            self._kept.move_to_end(uid)
            if len(self._kept) > self.MOST:
                self._kept.popitem(last=False)
        return answer


_refusals = _Refusals()


def placement_reserve(*, seen: PodSeen, candidates: Sequence[str], config: DeviceConfig) -> FilterAnswer:
    """Choose a node of `candidates` and reserve devices on it for the pod; an earlier reservation is replaced.

    Raises ledger.LedgerUnavailable.
    """
    view = live_view.live().within(RECENT_S)
    row = view.pod(seen.uid)
    if row is not None or not view.ready:
        view = live_view.live().refresh()
        row = view.pod(seen.uid)
    if not view.ready:
        return FilterAnswer(error=NOT_READY)
    early = _early(row, candidates)
    if early is not None:
        return early
    asked = (view.clock, seen.namespace, seen.request, tuple(candidates))
    refusal = _refusals.again(seen.uid, asked)
    if refusal is not None:
        return refusal
    if _waits_for_quota(view, row, seen):
        return _refusals.keep(seen.uid, asked, _with_reasons(view, _no_claim(view, row, seen), seen, candidates))
    if row is not None and row.state != PodState.WAITING:
        decision = _decide_uncrowded(view, row, seen, candidates)
        if decision.placement is None and row.state == PodState.CLAIMED:
            return _refusals.keep(seen.uid, asked, FilterAnswer(decision=decision, revision=view.clock.revision))
    else:
        decision = None
    asks = [adoption.asked(seen)]
    with live_view.deciding(cause="placement_reserve", gather=True, first=asks) as (entry, now):
        answer = _confirm(entry, now, seen, candidates, decision, view, config)
    return _with_reasons(live_view.live().refresh(), answer, seen, candidates) if answer.quota else answer


def _with_reasons(view: View, answer: FilterAnswer, seen: PodSeen, candidates: Sequence[str]) -> FilterAnswer:
    """A refusal for quota with why each node refuses, which nobody needed for the decision itself."""
    decision = _decide(view, view.pod(seen.uid), seen, candidates)
    return answer if decision.placement is not None else replace(answer, decision=decision)


def placement_simulate(*, seen: PodSeen, candidates: Sequence[str]) -> FilterAnswer:
    """Every candidate on which the pod would fit now, with live use. Nothing is written."""
    view = live_view.live().refresh()
    if not view.ready:
        return FilterAnswer(error=NOT_READY)
    row = view.pod(seen.uid)
    decision = _decide(view, row, seen, candidates, fit_all=True)
    node = decision.placement.node if decision.placement else ""
    return FilterAnswer(node=node, decision=decision, revision=view.clock.revision)


def _early(row: PodRow | None, candidates: Sequence[str]) -> FilterAnswer | None:
    """Pods whose node is decided are never moved."""
    if row is None:
        return None
    if row.state == PodState.BINDING:
        if row.node in candidates:
            return FilterAnswer(node=row.node)
        return FilterAnswer(error=f"a binding to node {row.node} is under way")
    if row.state in pod_rows.ON_NODE:
        return FilterAnswer(error=f"the pod is on node {row.node} already")
    return None


def _confirm(
    entry: Entry,
    view: View,
    seen: PodSeen,
    candidates: Sequence[str],
    decision: place.Decision | None,
    decided_on: View,
    config: DeviceConfig,
) -> FilterAnswer:
    if not view.ready:
        return FilterAnswer(error=NOT_READY)
    before = view.pod(seen.uid)
    had_none = entry.untouched and (before is None or not before.shares)
    pod = adoption.pod_adopt(entry, view, seen, adoption.pod_known(entry, seen))
    early = _early(view.pod(seen.uid), candidates)
    if early is not None:
        return early
    if pod.state == PodState.ENDED:  # kube-scheduler asks about a pod that was deleted meanwhile
        return FilterAnswer(error="the pod has ended")
    if pod.state == PodState.WAITING:
        refused = _without_claim(entry, view, pod, seen, candidates)
        if refused is not None:
            return refused
    chosen = None
    if decision is None or view is not decided_on:
        stale, decision = decision, _decide_again(view, view.pods.get(pod.pk), seen, candidates, decision)
        chosen = stale if stale is not None and confirms(decision, stale) else None
    if decision.placement is None:
        if pod.state == PodState.RESERVED:
            pod_rows.pod_unplace(entry, pod)
        return FilterAnswer(decision=decision, revision=entry.revision)
    reserve(entry, pod, decision.placement, seen.request, config, had_none=had_none)
    return FilterAnswer(node=decision.placement.node, decision=decision, revision=entry.revision, chosen=chosen)


def confirms(decision: place.Decision, stale: place.Decision) -> bool:
    """Whether the decision looked at the stale choice alone."""
    return stale.placement is not None and decision.question.candidates == (stale.placement.node,)


def _without_claim(entry: Entry, view: View, pod: Pod, seen: PodSeen, candidates: Sequence[str]) -> FilterAnswer | None:
    """Why a pod that holds no claim may not be placed; None after it got one (a suspended claim comes back with a
    fit)."""
    if pod.suspended:
        decision = _decide(view, view.pods.get(pod.pk), seen, candidates)
        if decision.placement is None:
            return FilterAnswer(decision=decision, revision=view.clock.revision)
        if adoption.claim_again(entry, view, pod, seen):
            return None
    return _no_claim(view, view.pods.get(pod.pk), seen)


def _waits_for_quota(view: View, row: PodRow | None, seen: PodSeen) -> bool:
    """Whether the pod has no claim and would get none now: then nothing would be written, and nobody need wait."""
    if row is None or row.state != PodState.WAITING or row.suspended or row.request != seen.request:
        return False
    return claims.judge(view, seen.namespace, claims.price(view, seen.request), without=row.id).stops


def _no_claim(view: View, row: PodRow | None, seen: PodSeen) -> FilterAnswer:
    own = row.id if row is not None else None
    verdict = claims.judge(view, seen.namespace, claims.price(view, seen.request), without=own)
    basis = claims.Basis(verdict.mode, verdict.headroom, view.kinds, seen.request)
    return FilterAnswer(quota=quota_text(verdict), revision=view.clock.revision, excess=verdict.excess, basis=basis)


def quota_text(verdict: claims.Verdict) -> str:
    """The sentence of a pod that has no claim."""
    return verdict.excess.text() if verdict.excess else NO_CLAIM


def _decide_uncrowded(view: View, row: PodRow | None, seen: PodSeen, candidates: Sequence[str]) -> place.Decision:
    """A node at which pods stand in line for their bind only if no other one does. HAMi does not look at that."""
    others = candidates if env.current().strict_hami else crowd.uncrowded(view, candidates)
    if others is not candidates:
        decision = _decide(view, row, seen, others)
        if decision.placement is not None:
            return decision
    return _decide(view, row, seen, candidates)


def _decide_again(
    view: View, row: PodRow | None, seen: PodSeen, candidates: Sequence[str], stale: place.Decision | None
) -> place.Decision:
    """The stale choice if it still fits; otherwise a new decision over all candidates."""
    if stale is not None and stale.placement is not None:
        same = _decide(view, row, seen, [stale.placement.node])
        if same.placement is not None:
            return same
    return _decide_uncrowded(view, row, seen, candidates)


def _decide(
    view: View, row: PodRow | None, seen: PodSeen, candidates: Sequence[str], *, fit_all: bool = False
) -> place.Decision:
    return place.place(
        states_without(view, row),
        candidates,
        seen.request,
        headroom=claims.with_limits_counted(view, seen.namespace, without=row.id if row else None),
        defaults=defaults(),
        fit_all=fit_all,
        strategies=strategies(),
    )


def states_without(view: View, row: PodRow | None) -> Mapping[str, NodeState]:
    """The node states as they are without what this pod holds."""
    if row is None or not row.held:
        return view.states
    return view.fold(Changes(pods={row.id: None})).states


def strategies() -> Strategies:
    """How the devices of each configured vendor are chosen."""
    return device_config.device_config().strategies


def defaults() -> place.Defaults:
    """The cluster's policies, for pods that name none."""
    settings = env.current()
    return place.Defaults(
        node_policy=settings.node_scheduler_policy,
        device_policy=settings.gpu_scheduler_policy,
        whole_card_as_largest_profile=settings.mig_whole_is_largest,
    )


def reserve(
    entry: Entry,
    pod: Pod,
    placement: place.Placement,
    request: PodRequest,
    config: DeviceConfig,
    *,
    had_none: bool = False,
) -> None:
    """Write the placement as the pod's reservation. Call under the Clock. had_none: the pod certainly has no shares."""
    pod_rows.shares_write(entry, pod, placement.shares, had_none=had_none)
    node = live_view.live().now.nodes.get(placement.node)
    wire = wire_texts.texts(
        placement.shares, request, config, node=placement.node, known=node.devices if node else (), at=entry.at
    )
    pod_rows.pod_move(
        entry,
        pod,
        PodState.RESERVED,
        node=placement.node,
        aligned=True,
        expired_node="",
        wire=wire,
        lease_until=entry.at + timedelta(seconds=env.current().reservation_lease_s),
    )
