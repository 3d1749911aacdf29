"""Drops what is older than the settings say. The Journal is pruned under the Clock, so that a View that fell behind
notices."""

from __future__ import annotations

from datetime import timedelta

from accounting import ledger
from accounting.models import Clock, Journal, Measurement, Pod, PodState, Trace
from hami_platform import env

BATCH = 2000


def retention_run() -> int:
    """One round; the number of rows dropped."""
    settings, now, cluster = env.current(), ledger.database_time(), ledger.cluster_id()
    dropped = Trace.objects.filter(
        cluster=cluster, last_at__lt=now - timedelta(days=settings.trace_keep_days)
    ).delete()[0]
    old = now - timedelta(days=settings.measurement_keep_days)
    dropped += Measurement.objects.filter(cluster=cluster, at__lt=old).delete()[0]
    return dropped + journal_prune(days=settings.journal_keep_days) + _pods(days=settings.trace_keep_days)


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
