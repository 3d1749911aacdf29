"""Drops what is older than the settings say. The Journal is pruned under the Clock, so that a View that fell behind
notices."""

from __future__ import annotations

from datetime import datetime, timedelta

from accounting import ledger
from accounting.models import (
    AccessRecord,
    Clock,
    DeniedAsk,
    Finding,
    IdempotencyKey,
    Journal,
    Measurement,
    Pod,
    PodState,
    Refusal,
    Trace,
)
from accounting.services import kept_inputs
from hami_platform import env

BATCH = 2000


def retention_run() -> int:
    """One round; the number of rows dropped."""
    settings, now, cluster = env.current(), ledger.database_time(), ledger.cluster_id()
    dropped = Trace.objects.filter(
        cluster=cluster, last_at__lt=now - timedelta(days=settings.trace_keep_days)
    ).delete()[0]
    dropped += kept_inputs.inputs_drop(
        cluster, now, days=settings.trace_keep_days, budget_mib=settings.trace_inputs_mib
    )
    dropped += _measurements(cluster, now - timedelta(days=settings.measurement_keep_days))
    dropped += _told(cluster, now - timedelta(days=settings.trace_keep_days))
    dropped += _refusals(cluster, now - timedelta(hours=1))
    dropped += _accesses(cluster, now - timedelta(days=settings.journal_keep_days))
    dropped += IdempotencyKey.objects.filter(created_at__lt=now - timedelta(days=1)).delete()[0]
    return dropped + journal_prune(days=settings.journal_keep_days) + _pods(days=settings.trace_keep_days)


def _measurements(cluster: int, old: datetime) -> int:
    """In batches: thousands of nodes leave more in an hour than one statement may take."""
    dropped = 0
    while keys := list(Measurement.objects.filter(cluster=cluster, slot__lt=old).values_list("pk", flat=True)[:BATCH]):
        dropped += Measurement.objects.filter(pk__in=keys).delete()[0]
    return dropped


def _told(cluster: int, old: datetime) -> int:
    """Denied asks that nobody repeated, and findings repaired long ago."""
    dropped = DeniedAsk.objects.filter(cluster=cluster, last_at__lt=old).delete()[0]
    return dropped + Finding.objects.filter(cluster=cluster, repaired_at__lt=old).delete()[0]


def _accesses(cluster: int, old: datetime) -> int:
    """As long as the journal: both answer who did what."""
    return AccessRecord.objects.filter(cluster=cluster, at__lt=old).delete()[0]


def _refusals(cluster: int, old: datetime) -> int:
    """Refusals of pods that ended while they waited: every tick of waking reads them all. The hour is for pods that
    nobody has observed yet."""
    alive = Pod.objects.filter(cluster=cluster).exclude(state=PodState.ENDED).exclude(uid="").values("uid")
    return Refusal.objects.filter(cluster=cluster, at__lt=old).exclude(pod_uid__in=alive).delete()[0]


def journal_prune(*, days: int) -> int:
    """Drop revisions older than that, never the last one. In batches, each short under the Clock."""
    dropped = 0
    while True:
        with ledger.transaction(cause="journal_prune") as entry:
            clock = Clock.objects.get(pk=entry.clock.pk)
            old = Journal.objects.filter(
                cluster=clock.cluster_id, at__lt=entry.at - timedelta(days=days), revision__lt=clock.revision
            )
            last = old.order_by("revision").values_list("revision", flat=True)[:BATCH]
            revisions = list(last)
            if not revisions:
                return dropped
            Clock.objects.filter(pk=clock.pk).update(pruned_through=revisions[-1])
            dropped += Journal.objects.filter(cluster=clock.cluster_id, revision__lte=revisions[-1]).delete()[0]


def _pods(*, days: int) -> int:
    """Ended pods with their shares; what they used is in the intervals."""
    with ledger.transaction(cause="retention_run") as entry:
        old = Pod.objects.filter(
            cluster=entry.clock.cluster_id, state=PodState.ENDED, ended_at__lt=entry.at - timedelta(days=days)
        )
        return Pod.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:BATCH])).delete()[0]
