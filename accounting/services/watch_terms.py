"""Changes of the watcher in office, in the Journal: who took over, under which epoch, and when."""

from __future__ import annotations

from accounting import ledger
from accounting.models import Journal

KIND, KEY = "clock", "watcher"


def term_begin(*, holder: str, epoch: int) -> bool:
    """Record that this process is in office under this epoch; False where that is known. Raises ledger.Fenced."""
    last = Journal.objects.filter(cluster=ledger.cluster_id(), kind=KIND, key=KEY).order_by("-revision").first()
    if last is not None and last.values.get("epoch") == epoch:
        return False
    with ledger.transaction(cause="watcher_term", fence=epoch) as entry:
        entry.record(KIND, KEY, holder=holder, epoch=epoch)
    return True
