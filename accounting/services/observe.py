"""What the API server shows of pods becomes what the ledger holds. The same function serves watch events, lists and
single reads.

Differences are found on the View before the Clock is taken; each is decided again under it. An event older than the
stored resourceVersion is ignored. A stale list frees nothing: absence is `pods_gone`, whose caller has checked it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from django.db import DataError

from accounting import ledger, live_view
from accounting.ledger import Entry
from accounting.models import Pod, PodState
from accounting.services import adoption, bindings, imports, mass_import, pod_rows, usage, wire_texts
from accounting.services.seen import PodSeen
from accounting.statements import Asked
from hami_platform import logs
from hami_platform.domain import lifecycle
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.rows import PodRow
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.view import View
from hami_platform.domain.wire import pod_facts

log = logs.get(__name__)

HOLD_S = 0.01
"""How long one ledger transaction goes on taking pods: whoever else needs the Clock waits so long and one pod more."""

SHARE = 0.1
"""Of the time that it has waited for the Clock a transaction may go on, where that is longer. In a burst all wait for
all: with a pod or two each time the watcher would fall behind by more than a claim lasts."""

AHEAD = 8
"""Pods whose rows are read together with the Clock."""

GONE = 5
"""Pods that end in one ledger transaction: about as long."""


def nothing() -> None:
    """What is done between two transactions, if the caller says nothing else."""


def pods_observe(
    seen: Collection[PodSeen],
    *,
    config: DeviceConfig,
    fence: int | None = None,
    between: Callable[[], None] = nothing,
    view: View | None = None,
) -> int:
    """Bring the ledger in line with these pod objects; the number of rows that changed. `between` is called after each
    transaction. view: the ledger, if the caller has read it after he saw them. Raises ledger.Fenced,
    LedgerUnavailable."""
    if not seen:
        return 0
    view = view or live_view.live().refresh()
    news = [one for one in seen if differs(view.pod(one.uid), one, config)]
    found = [one for one in news if one.node and not one.terminal and view.pod(one.uid) is None]
    changed = 0
    if len(found) >= mass_import.MANY:
        changed = _imported(found, config, fence, between)
        view = live_view.live().refresh()
        news = [one for one in news if differs(view.pod(one.uid), one, config)]
    waiting = deque(news)
    while waiting:
        taken: list[PodSeen] = []
        try:
            first = _asked_first(view, list(islice(waiting, AHEAD)))
            changed += _batch(_turn(waiting, taken, time.monotonic()), config, fence, first)
        except DataError:
            changed += sum(_alone(one, config, fence) for one in taken)
        between()
    return changed


def _imported(found: Sequence[PodSeen], config: DeviceConfig, fence: int | None, between: Callable[[], None]) -> int:
    try:
        return mass_import.pods_import(found, config=config, fence=fence, between=between)
    except DataError:  # one of them cannot be stored: each by itself then
        return 0


def _turn(waiting: deque[PodSeen], taken: list[PodSeen], before: float) -> Iterator[PodSeen]:
    """The next pods for one transaction: one at least, then as many as HOLD_S and SHARE allow. `taken` says which.

    Asked for the first one when the Clock is there, `before` when the wait for it began.
    """
    now = time.monotonic()
    until = now + max(HOLD_S, (now - before) * SHARE)
    while waiting and (not taken or time.monotonic() < until):
        taken.append(waiting.popleft())
        yield taken[-1]


def _asked_first(view: View, pods: Sequence[PodSeen]) -> list[Asked]:
    """What `_observe` will ask about these pods, to be sent with the Clock's message."""
    holders = {lock.pod_uid for lock in view.locks.values()}
    locks = [pod_rows.locks_asked(one.uid) for one in pods if one.uid in holders]
    return [_row_asked(one) for one in pods] + locks


def _row_asked(seen: PodSeen) -> Asked:
    return adoption.asked(seen) if seen.unbound and not _over(seen) else pod_rows.asked(seen.uid)


def _over(seen: PodSeen) -> bool:
    return seen.terminal or (seen.facts.deleting and seen.unbound)


def _batch(pods: Iterable[PodSeen], config: DeviceConfig, fence: int | None, first: Sequence[Asked] = ()) -> int:
    changed = 0
    with live_view.deciding(cause="pods_observe", fence=fence, gather=True, first=first) as (entry, _):
        for one in pods:
            changed += _observe(entry, live_view.live().refresh(), one, config)
            if entry.charged:
                break  # the next pod would be judged without it
    return changed


def _alone(one: PodSeen, config: DeviceConfig, fence: int | None) -> int:
    """One pod by itself: what the database refuses of it must not keep the others from being seen.

    On a node it counts as undecodable then, and the node takes no new device pods while it lives.
    """
    try:
        return _batch([one], config, fence)
    except DataError as fault:
        log.warning("pod_unstorable", uid=one.uid, namespace=one.namespace, pod=one.name, why=str(fault))
    if one.unbound:
        return 0
    undecodable = {vendor.allocated_key: "?" for vendor in config.vendors[:1]}
    facts = lifecycle.PodFacts(one.facts.phase, one.facts.deleting, one.facts.bound)
    bare = replace(one, request=PodRequest(()), facts=facts, owner="", priority=0, annotations=undecodable)
    try:
        return _batch([bare], config, fence)
    except DataError:
        log.exception("pod_unaccounted", uid=one.uid, namespace=one.namespace, pod=one.name, node=one.node)
        return 0


def pods_gone(uids: Sequence[str], *, fence: int | None = None, between: Callable[[], None] = nothing) -> int:
    """These pods are certainly gone from the API server. Repeats and unknown uids change nothing."""
    if not uids:
        return 0
    view = live_view.live().refresh()
    known = iter([uid for uid in uids if view.pod(uid) is not None])
    ended = 0
    while batch := list(islice(known, GONE)):
        with ledger.transaction(cause="pods_gone", fence=fence) as entry:
            rows = Pod.objects.filter(cluster=ledger.cluster_id(), uid__in=batch).exclude(state=PodState.ENDED)
            for pod in rows:
                _end(entry, pod)
                ended += 1
        between()
    return ended


def differs(row: PodRow | None, seen: PodSeen, config: DeviceConfig) -> bool:
    """Whether the ledger must look at this pod at all. Cheap: called for every pod of every list."""
    if row is None:
        return concerns(seen, config) and not seen.terminal and not (seen.facts.deleting and seen.unbound)
    if seen.resource_version and seen.resource_version < row.resource_version:
        return False
    if _over(seen):
        return True
    return (
        row.state == PodState.WAITING
        or (seen.node != row.node and bool(seen.node))
        or (bool(seen.node) and (row.facts != seen.facts or row.state != imports.state_on_node(seen)))
        or (seen.unbound and row.gated != seen.gated)
        or (row.state in pod_rows.UNBOUND and seen.unbound and not seen.problem and row.request != seen.request)
    )


def concerns(seen: PodSeen, config: DeviceConfig) -> bool:
    """Whether the pod asks for devices, or says that it was given some."""
    return seen.request.asks or any(vendor.allocated_key in seen.annotations for vendor in config.vendors)


def _observe(entry: Entry, view: View, seen: PodSeen, config: DeviceConfig) -> bool:
    """One pod, under the Clock. True when its row changed."""
    row = view.pod(seen.uid)
    if not differs(row, seen, config):
        return False
    over = _over(seen)
    pod = adoption.pod_known(entry, seen) if seen.unbound and not over else pod_rows.by_uid(entry, seen.uid)
    if pod is not None and pod.state == PodState.ENDED:
        return False
    if over:
        return _ended(entry, pod, seen)
    if seen.unbound:
        return _unbound(entry, view, seen, pod)
    before = len(entry.rows)
    if pod is None:
        pod = imports.pod_import(entry, view, seen, config)
    elif pod.state in pod_rows.UNBOUND:
        imports.pod_take_over(entry, view, pod, seen, config)
    return _on_node(entry, view, pod, seen, known=None if len(entry.rows) > before else row)


def _ended(entry: Entry, pod: Pod | None, seen: PodSeen) -> bool:
    if pod is None:
        return False
    _end(entry, pod, seen.finished_at if seen.terminal else None)
    return True


def _end(entry: Entry, pod: Pod, finished_at: datetime | None = None) -> None:
    pod_rows.pod_end(entry, pod)
    usage.intervals_close(entry, pod, finished_at=finished_at)
    if pod.unmanaged:
        entry.flush()
        imports.unmanaged_ended(entry, pod)


def _unbound(entry: Entry, view: View, seen: PodSeen, known: Pod | None) -> bool:
    before = len(entry.rows)
    pod = adoption.pod_adopt(entry, view, seen, known)
    if pod.gated != seen.gated:
        pod_rows.pod_move(entry, pod, pod.state, gated=seen.gated, resource_version=seen.resource_version)
        return True
    return len(entry.rows) > before


def _on_node(entry: Entry, view: View, pod: Pod, seen: PodSeen, *, known: PodRow | None) -> bool:
    """known: the pod in the View, where nothing of it has been written since."""
    if known is not None and known.node != seen.node:
        known = None
    if pod.state in pod_rows.UNBOUND and not pod.node and not pod.bind_attempt:  # never ours to place: no oddity
        pod_rows.pod_move(entry, pod, PodState.BOUND, node=seen.node, lease_until=None, expired_node="")
    elif pod.node != seen.node:
        bindings.pod_put_on(entry, pod, seen.node)
    if seen.started and any(lock.pod_uid == pod.uid for lock in view.locks.values()):
        pod_rows.lock_drop(entry, pod)
    made = wire_texts.mig_made(pod.wire, seen.annotations)
    news: dict[str, object] = {} if made is None else {"wire": {**pod.wire, wire_texts.MIG: made}}
    if pod.state in pod_rows.UNBOUND:
        news |= {"lease_until": None, "expired_node": ""}
    facts = pod_facts.encode(seen.facts)
    state = imports.state_on_node(seen)
    pod_rows.pod_move(entry, pod, state, facts=facts, resource_version=seen.resource_version, gated=False, **news)
    if known is not None:
        after = replace(known, state=state, facts=seen.facts)
        usage.intervals_follow(entry, pod, known, after, started_at=seen.started_at)
    else:
        entry.flush()
        usage.intervals_write(entry, pod)
    return True
