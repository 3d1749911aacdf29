"""Why a pod has no device yet, answered from the View as `/filter` would answer now. Nothing is written."""

from __future__ import annotations

from dataclasses import dataclass

from accounting.services import claims, placements
from hami_platform.domain import explain, place
from hami_platform.domain.quota import Excess
from hami_platform.domain.rows import PodRow
from hami_platform.domain.view import View

NODES_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Why:
    """quota: the limit that stops the pod before any device is looked at. explanation: what the devices say."""

    explanation: explain.Explanation
    quota: Excess | None = None
    nodes_left_out: int = 0

    @property
    def sentence(self) -> str:
        """The answer in one line."""
        if self.quota is not None:
            return self.quota.text()
        if self.explanation.verdict == explain.Verdict.FITS:
            return f"It {self.explanation.headline} now; it is placed when the scheduler asks again."
        if self.explanation.verdict == explain.Verdict.NEVER_FITS:
            return f"It cannot fit here even if nothing ran. {self.explanation.headline}"
        return self.explanation.headline


def why(view: View, row: PodRow) -> Why:
    """What would happen if kube-scheduler offered every node now."""
    verdict = claims.judge(view, row.namespace, row.charges or claims.price(view, row.request), without=row.id)
    decision = place.place(
        view.states,
        tuple(view.states),
        row.request,
        defaults=placements.defaults(),
        strategies=placements.strategies(),
        headroom=claims.with_limits_counted(view, row.namespace, without=row.id),
    )
    found = explain.explain(decision, row.request)
    return Why(found, verdict.excess if verdict.stops else None, max(0, len(found.nodes) - NODES_SHOWN))
