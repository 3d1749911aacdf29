"""A decision that might be taken: who asks, on which View, and what the answer would be.

Explanations, fixes and simulations ask one `Decide`, the same as the live paths go by, on Views of their own making.
Must not know: settings, or where a View comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hami_platform.domain import place, quota
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.rows import PodRow
from hami_platform.domain.view import View

WAITING: tuple[str, ...] = ("waiting", "claimed")
"""States of pods that have no device and want one."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A pod as decisions see it. pod: its row in the View, whose own claim does not stand in its way; None: no row."""

    namespace: str
    request: PodRequest
    pod: int | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What would become of an ask.

    mode: the namespace's. excess: the first limit that the least the pod can take would break. stops: whether that
    keeps it out. decision: where it would go if quota let it in.
    """

    mode: str
    excess: quota.Excess | None
    stops: bool
    decision: place.Decision

    @property
    def placement(self) -> place.Placement | None:
        """Where it goes, quota and devices together; None: nowhere."""
        return None if self.stops else self.decision.placement


Decide = Callable[[View, Ask, "Sequence[str] | None"], Answer]
"""(view, ask, candidate nodes; None: all) → the answer. Must be the very rules by which live decisions are taken."""


def ask_of(row: PodRow) -> Ask:
    """The ask of a pod that the ledger knows."""
    return Ask(row.namespace, row.request, row.id, row.priority)


def in_order(rows: Iterable[PodRow]) -> list[PodRow]:
    """The order in which waiting pods are woken: priority, then age, then uid."""
    return sorted(rows, key=lambda row: (-row.priority, row.created_at_s, row.uid))


def waiting(view: View) -> list[PodRow]:
    """Pods that wait, first the next to be woken. Claims whose pod was not seen yet are not among them."""
    return in_order(row for row in view.pods.values() if row.uid and row.state in WAITING)
