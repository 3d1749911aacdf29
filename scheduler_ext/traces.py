"""Decisions kept for people: why a pod waits, in numbers, long after kube-scheduler's event is gone.

Rows are written in batches off the hot path, one per pod, verdict and reason; a repeat only counts up. What is written
about a refusal beside it (`Refusal`) is what waking goes by. Must not know: how a decision is made.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection as database
from django.db import models

from accounting import ledger
from accounting.models import Refusal, Trace
from accounting.services import claims, decision_inputs, decision_texts, kept_inputs
from hami_platform import metrics
from hami_platform.domain import ever, place
from scheduler_ext import background

PLACED, REFUSED, ERROR = "placed", "refused", "error"
ADMITTED, GATED, DENIED = "admitted", "gated", "denied"
ALL_SHOWN = 100  # kube-scheduler goes on looking for so many nodes at least (minFeasibleNodesToFind)

_dropped = metrics.counter("hami_platform_traces_dropped_total", "Decisions not kept because the writer was behind.")


Key = tuple[str, str, str]
"""(pod uid, verdict, reason): what a row is about."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision. decision is looked at by the writer, not by whoever decided: counting exactly costs time. chosen:
    the one before it that found the node, if decision only confirms it. basis: what the limits were judged on, where
    they decided. by_text: the pod's text alone decided.

    uid: of a pod that is being admitted, its claim's id; of a denied one, what its owner's repeats have in common.
    """

    uid: str
    namespace: str
    pod: str
    verdict: str
    reason: str = ""
    summary: str = ""
    revision: int = 0
    decision: place.Decision | None = None
    chosen: place.Decision | None = None
    basis: claims.Basis | None = None
    by_text: bool = False

    @property
    def key(self) -> Key:
        return (self.uid, self.verdict, self.reason)

    @property
    def grounds(self) -> decision_inputs.Grounds:
        """What it was taken on."""
        choices = tuple(one for one in (self.chosen, self.decision) if one is not None)
        return decision_inputs.Grounds(self.basis, choices)


def keep(decided: Decided) -> None:
    """Queue it for writing; returns at once."""
    if not _queue.put(decided):
        _dropped.inc()


def write(batch: Iterable[Decided]) -> None:
    """Write decisions now. The last of each pod and reason gives the row its text."""
    latest: dict[Key, Decided] = {}
    times: dict[Key, int] = {}
    last: dict[str, Decided] = {}
    placed: set[str] = set()
    for one in batch:
        latest[one.key] = last[one.uid] = one
        placed |= {one.uid} if one.verdict == PLACED else set()
        times[one.key] = times.get(one.key, 0) + 1
    try:
        cluster = ledger.cluster_id()
        now = ledger.database_time()  # ages are compared with it: a process whose clock is off must not shorten them
        kept = _keeper.spell(cluster, now, {key: one.grounds for key, one in latest.items()})
        rows = {key: _row(one, now, kept) for key, one in latest.items()}
        with ledger.losable():
            _traces(cluster, latest, rows, times)
            Refusal.objects.filter(cluster=cluster, pod_uid__in=placed).delete()
            for uid in sorted(last):
                _refusal(cluster, last[uid], now)
            _keeper.write(kept)
    except BaseException:
        _keeper.forget()
        raise
    finally:
        if not database.in_atomic_block:
            database.close()


def _traces(cluster: int, latest: Mapping[Key, Decided], rows: Mapping[Key, Any], times: Mapping[Key, int]) -> None:
    """New rows by one statement; a repeat counts up. In one order everywhere, so that two writers never wait for each
    other."""
    written = Trace.objects.filter(cluster=cluster, pod_uid__in={one.uid for one in latest.values()})
    known = set(written.values_list("pod_uid", "verdict", "reason").order_by())
    fresh = [_fresh(cluster, latest[key], rows[key], times[key]) for key in sorted(rows) if key not in known]
    Trace.objects.bulk_create(fresh, ignore_conflicts=True)  # where another replica was first, its row says the same
    for uid, verdict, reason in sorted(key for key in rows if key in known):
        same = Trace.objects.filter(cluster=cluster, pod_uid=uid, verdict=verdict, reason=reason)
        same.update(**rows[uid, verdict, reason], times=models.F("times") + times[uid, verdict, reason])


def _fresh(cluster: int, one: Decided, row: Mapping[str, Any], times: int) -> Trace:
    return Trace(
        cluster_id=cluster, pod_uid=one.uid, verdict=one.verdict, reason=one.reason, namespace=one.namespace,
        pod_name=one.pod, first_at=row["last_at"], times=times, **row,
    )  # fmt: skip


def _refusal(cluster: int, one: Decided, now: datetime) -> None:
    """The pod's last refusal; the rows of placed pods are gone already."""
    if one.verdict != REFUSED:
        return
    never = one.decision is not None and _hopeless.never_fits(one.namespace, one.decision)
    values = {
        "revision": one.revision, "at": now, "reason": one.reason, "summary": _summary(one), "never_fits": never,
        "candidates": _offered(one),
    }  # fmt: skip
    since = {"never_fits_since": now if never else None}
    rows = Refusal.objects.filter(cluster=cluster, pod_uid=one.uid)
    if not rows.update(**values):
        fresh = Refusal(cluster_id=cluster, pod_uid=one.uid, since=now, **values, **since)
        Refusal.objects.bulk_create([fresh], ignore_conflicts=True)
    elif never:
        rows.filter(never_fits_since=None).update(**since)
    else:
        rows.update(**since)


def _offered(one: Decided) -> list[str] | None:
    """The nodes that kube-scheduler's own checks left, where it certainly showed all of them."""
    if one.decision is None or one.decision.placement is not None:
        return None
    names = one.decision.rejections
    return sorted(names) if 0 < len(names) < ALL_SHOWN else None


class Hopeless:
    """Which requests could not run even on the empty cluster. Looks at every node, so an answer is kept a while."""

    KEPT_S = 60.0
    MOST = 1000

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[float, bool]] = {}
        self._inventory = ever.Inventory()

    def never_fits(self, namespace: str, decision: place.Decision) -> bool:
        """Whether the decision's pod fits nowhere as devices are registered and limits set, whoever holds what."""
        question = decision.question
        limits = tuple(rule for rule, _ in question.headroom.rules)
        key = (namespace, question.request, limits, self._inventory.of(question.nodes, question.request))
        kept = self._known.get(key)
        if kept is not None and time.monotonic() < kept[0]:
            return kept[1]
        if len(self._known) >= self.MOST:
            self._known.clear()
        never = not ever.fits_anywhere_when_empty(decision)
        self._known[key] = (time.monotonic() + self.KEPT_S, never)
        return never


def _row(one: Decided, now: datetime, kept: kept_inputs.Kept[Key]) -> dict[str, Any]:
    detail = decision_texts.detail(one.decision)
    if one.key in kept.why_not:
        detail["not_kept"] = (kept_inputs.NotKept.POD if one.by_text else kept.why_not[one.key]).value
    return {
        "summary": _summary(one), "detail": detail, "revision": one.revision, "last_at": now,
        "inputs_hash": kept.hashes.get(one.key, ""),
    }  # fmt: skip


def _summary(one: Decided) -> str:
    if one.summary or one.decision is None:
        return one.summary[: decision_texts.SUMMARY_MAX]
    return decision_texts.summary(one.decision)


_hopeless = Hopeless()
_keeper: kept_inputs.Keeper[Key] = kept_inputs.Keeper()
_queue: background.Batcher[Decided] = background.Batcher("traces", write, depth=500, linger_s=0.5)
