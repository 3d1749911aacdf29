"""What the watcher sees of a pod and need not record at once, because somebody else is about to record more.

A new pod with a claim is asked about by kube-scheduler in a moment, and `/filter` gives it its row then; a pod that was
bound here holds what it held, and starts in a moment. Each saves a ledger transaction and what it costs every process
that follows; those that nothing becomes of are recorded together after LINGER_S. Nothing here is needed for anything
to come right: a list shows all of it again. Must not know how a pod is recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from accounting.models import PodState
from accounting.services.seen import PodSeen
from hami_platform.domain.rows import PodRow
from hami_platform.domain.view import View

LINGER_S = 1.0
"""Of a claim's 15 s, and of the 2 s after which an extender records its bind itself."""


def may_linger(row: PodRow | None, seen: PodSeen) -> bool:
    """Whether nobody misses it for a second: nothing is freed, taken, refused or woken by it."""
    if seen.terminal or seen.facts.deleting or seen.gated or seen.problem:
        return False
    if seen.unbound:
        return row is None and bool(seen.claim_id)
    bound = row is not None and row.state == PodState.BINDING and row.node == seen.node
    return bound and seen.facts.phase != "Running" and not seen.started


class Lingering:
    """What waits, by pod: its last state, and since when the first of it does."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[float, PodSeen]] = {}

    def now(self, view: View, found: Iterable[PodSeen], now_s: float) -> list[PodSeen]:
        """Those of `found` that must be recorded now; the others wait. The newest state of a pod replaces an older."""
        urgent = []
        for one in found:
            since_s, _ = self._waiting.pop(one.uid, (now_s, one))
            if may_linger(view.pod(one.uid), one):
                self._waiting[one.uid] = (since_s, one)
            else:
                urgent.append(one)
        return urgent

    def forgotten(self, uids: Collection[str]) -> list[PodSeen]:
        """What waits of these pods, which are gone: their claims fall when they are recorded, and then as gone."""
        return [self._waiting.pop(uid)[1] for uid in uids if uid in self._waiting]

    def due(self, now_s: float) -> list[PodSeen]:
        """What has waited long enough, and waits no more."""
        due = [uid for uid, (since_s, _) in self._waiting.items() if now_s - since_s >= LINGER_S]
        return [self._waiting.pop(uid)[1] for uid in due]

    def clear(self) -> None:
        """A list has come that shows all there is."""
        self._waiting.clear()

    @property
    def waiting(self) -> Mapping[str, PodSeen]:
        """The last state of each pod that waits."""
        return {uid: seen for uid, (_, seen) in self._waiting.items()}
