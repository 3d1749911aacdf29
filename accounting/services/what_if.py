"""What would become of a pod or of a change: the live rules, asked on any View. Nothing is written.

The one `Decide` of explanations, fixes and simulations, made of the very functions by which claims and placements are
decided. Must not know: who asks, or how the answer is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accounting.services import claims, placements
from hami_platform.domain import explain, place, simulate
from hami_platform.domain.rows import PodRow
from hami_platform.domain.sentences import Sentence
from hami_platform.domain.view import View
from hami_platform.domain.what_if import Answer, Ask, ask_of


def decide(view: View, ask: Ask, names: Sequence[str] | None = None) -> Answer:
    """What admission and `/filter` would say to the pod on this View, if every node were offered (or these)."""
    row = view.pods.get(ask.pod) if ask.pod is not None else None
    same = row is not None and row.request == ask.request
    charges = row.charges if row is not None and same and row.charges else claims.price(view, ask.request)
    verdict = claims.judge(view, ask.namespace, charges, without=ask.pod)
    states = placements.states_without(view, row)
    few: Mapping[str, Any] = states
    if names is not None:  # a few nodes are decided apart, or they would take the place of what is known of all
        few = {name: states[name] for name in names if name in states}
    decision = place.place(
        few,
        tuple(few),
        ask.request,
        defaults=placements.defaults(),
        strategies=placements.strategies(),
        headroom=claims.with_limits_counted(view, ask.namespace, without=ask.pod),
    )
    return Answer(verdict.mode, verdict.excess, verdict.stops, decision)


def explain_pod(view: View, row: PodRow) -> explain.Explanation:
    """Why this pod waits, and what would make it run."""
    return explain.explain_pod(view, row, decide)


def sentence(view: View, row: PodRow) -> Sentence:
    """The headline of a waiting pod's explanation, without the rest."""
    return explain.sentence(view, ask_of(row), decide)


def explain_ask(view: View, ask: Ask) -> explain.Explanation:
    """The same of a pod that does not exist."""
    return explain.explain(view, ask, decide)


def effect(view: View, scenario: simulate.Scenario) -> simulate.Effect:
    """What a change would do to the pods that wait, and to those that it displaces."""
    return simulate.effect(view, scenario, decide)
