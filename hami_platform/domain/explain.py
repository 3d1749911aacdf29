"""The answer to "why is my pod pending, and what would make it run": one object for page, REST, command line and event.

Asks the decision; takes none. Looks at every candidate through screens, and closely at the few nodes on which the least
is missing. Knows no clock and no page: texts are plain sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from hami_platform.domain import (
    arithmetic,
    checks,
    ever,
    fix_nodes,
    fix_quota,
    fix_requests,
    fixes,
    headlines,
    place,
    quota,
    what_if,
)
from hami_platform.domain.reasons import Reason
from hami_platform.domain.rows import PodRow
from hami_platform.domain.sentences import Sentence, phrase
from hami_platform.domain.view import View

LINES = 50
"""Nodes shown one by one."""
NEAR = 32
"""Nodes on which smaller requests are tried first."""
MOST_FIXES = 6
SMALLER: tuple[fixes.Search, ...] = (
    fix_requests.less_memory, fix_requests.fewer_cores, fix_requests.fewer_devices, fix_requests.fewer_conditions,
)  # fmt: skip


class Verdict(StrEnum):
    """What a refusal means for the one who waits."""

    FITS = "fits"
    BLOCKED_BY_QUOTA = "blocked_by_quota"
    NO_FIT_NOW = "no_fit_now"
    NEVER_FITS = "never_fits"
    WAITING_FOR_BIND = "waiting_for_bind"
    NOT_OURS = "not_ours"
    HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class Position:
    """Where in the queue: 1 is woken first. of: how many wait."""

    place: int
    of: int
    place_in_namespace: int
    of_namespace: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a pod has no device yet.

    checks: in the order in which a pod meets them. reasons: nodes per dominant reason, most frequent first. nodes: the
    nearest ones, at most LINES of candidates. excess: the limit that refuses, where quota does. fixes: smallest first,
    each tried. revision: of the View it was answered on.
    """

    verdict: Verdict
    headline: Sentence
    revision: int
    checks: tuple[checks.Check, ...] = ()
    reasons: tuple[tuple[Reason, int], ...] = ()
    nodes: tuple[arithmetic.NodeLine, ...] = ()
    candidates: int = 0
    excess: quota.Excess | None = None
    placement: place.Placement | None = None
    fixes: tuple[fixes.Fix, ...] = ()
    position: Position | None = None

    @property
    def nodes_left_out(self) -> int:
        """Candidates that are only counted."""
        return max(0, self.candidates - len(self.nodes))

    @property
    def summary(self) -> str:
        """`0/3 nodes: 2 CardInsufficientMemory, 1 CardTypeMismatch`; empty where the pod fits."""
        words = ", ".join(f"{count} {reason.value}" for reason, count in self.reasons)
        return f"0/{self.candidates} nodes: {words}" if words else ""


def explain_pod(view: View, row: PodRow, decide: what_if.Decide) -> Explanation:
    """Explain a pod that the ledger knows, in whatever state it is."""
    if row.state not in what_if.WAITING:
        return _on_its_way(view, row)
    if row.unmanaged:
        text = phrase("It came past the webhook and is not placed by this platform.")
        return Explanation(Verdict.NOT_OURS, text, view.clock.revision, checks.of_unmanaged(row))
    return explain(view, what_if.ask_of(row), decide, row=row)


def explain(view: View, ask: what_if.Ask, decide: what_if.Decide, *, row: PodRow | None = None) -> Explanation:
    """Explain what the decision would be now, if kube-scheduler offered every node. row: the pod's, if it is known."""
    answer = decide(view, ask, None)
    decision = answer.decision
    placement = answer.placement
    able = ever.able(decision.question)
    if placement is not None:
        lines = _lines(view, decision, able, (placement.node,))
        found = checks.of(answer, row, lines, excess=None)
        headline = headlines.of_placement(placement)
        return Explanation(
            Verdict.FITS, headline, view.clock.revision, found, (), lines, len(decision.question.candidates),
            placement=placement, position=_position(view, row),
        )  # fmt: skip
    never = not able
    lines = _lines(view, decision, able, ())
    excess = answer.excess if answer.stops else None
    if excess is None and decision.placement is None:
        excess = fix_quota.excess_on_a_node(decision, [line.node for line in lines[:NEAR]])
    verdict = Verdict.NEVER_FITS if never else Verdict.BLOCKED_BY_QUOTA if excess is not None else Verdict.NO_FIT_NOW
    return Explanation(
        verdict,
        _headline(view, decision, excess, [line.node for line in lines], never=never),
        view.clock.revision,
        checks.of(answer, row, lines, excess=excess),
        place.dominant_reasons(decision.rejections) if decision.placement is None else (),
        lines,
        len(decision.question.candidates),
        excess,
        fixes=_fixes(fixes.Scene(view, ask, answer, decide, [line.node for line in lines[:NEAR]]), never=never),
        position=_position(view, row),
    )


def sentence(view: View, ask: what_if.Ask, decide: what_if.Decide) -> Sentence:
    """The headline of `explain`, without what else there is to say."""
    answer = decide(view, ask, None)
    placement = answer.placement
    if placement is not None:
        return headlines.of_placement(placement)
    return headline(answer.decision, answer.excess if answer.stops else None)


def headline(decision: place.Decision, excess: quota.Excess | None) -> Sentence:
    """The sentence of a refusal without the rest of the explanation, for an event. excess: the limit that stopped the
    pod before any device was looked at."""
    able = ever.able(decision.question)
    names = arithmetic.near(decision, decision.question.candidates, LINES, able)
    found = excess or fix_quota.excess_on_a_node(decision, names[:NEAR])
    return _headline(View(), decision, found, names, never=not able)


def _headline(
    view: View, decision: place.Decision, excess: quota.Excess | None, names: Sequence[str], *, never: bool
) -> Sentence:
    """Quota first: it is met first. For what never fits, the arithmetic of the empty node says why."""
    if excess is not None:
        return headlines.of_limit(excess)
    if never and names:
        empty = ever.emptied_decision(decision, names)
        nearest = arithmetic.near(empty, empty.question.candidates, 1, frozenset())
        if nearest:
            return headlines.of_devices(decision, arithmetic.line(view, empty, nearest[0]), never=True)
    return headlines.of_devices(decision, arithmetic.line(view, decision, names[0]) if names else None, never=False)


def _lines(
    view: View, decision: place.Decision, able: frozenset[str], first: tuple[str, ...]
) -> tuple[arithmetic.NodeLine, ...]:
    """The chosen node, then those that are nearest."""
    others = arithmetic.near(decision, decision.question.candidates, LINES, able)
    names = [*first, *(name for name in others if name not in first)][:LINES]
    return tuple(arithmetic.line(view, decision, name) for name in names)


def _fixes(scene: fixes.Scene, *, never: bool) -> tuple[fixes.Fix, ...]:
    """Single changes; where none helps, changes on top of others."""
    on_nodes = (fix_nodes.lifted,) if never else (fix_nodes.lifted, fix_nodes.ended)
    found = list(fixes.verified(scene, (fix_quota.raised, fix_quota.freed, *SMALLER, *on_nodes)))
    if not any(step.role == fixes.OWNER and step.value is not None for fix in found for step in fix.steps):
        found += fixes.verified(scene, (fix_requests.smaller,))
    raised = next(iter(fix_quota.raised(scene)), None)
    if raised is not None and scene.fix(raised) is None:
        found += fixes.verified(scene.after(raised), (*SMALLER, fix_nodes.lifted, fix_nodes.ended))
    found = found or _combined(scene, raised)
    return fixes.best((fix_requests.trimmed(scene, fix_quota.exact(scene, fix)) for fix in found), MOST_FIXES)


def _combined(scene: fixes.Scene, raised: fixes.Draft | None) -> list[fixes.Fix]:
    """What helps only together: the first way that is found, from the smaller to the larger."""
    start = scene.after(raised) if raised is not None else scene
    free = fix_requests.unconditional(start)
    searches = (*SMALLER, fix_requests.smaller, fix_nodes.lifted, fix_nodes.cleared)
    for draft in (None, free, fix_requests.single(start)):
        found = list(fixes.verified(start.after(draft) if draft is not None else start, searches))
        if found:
            return found
    one = fix_requests.single(start.after(free)) if free is not None else None
    return list(fixes.verified(start.after(free).after(one), searches)) if free is not None and one is not None else []


def _position(view: View, row: PodRow | None) -> Position | None:
    if row is None or not row.uid:
        return None
    queue = what_if.waiting(view)
    own = [one for one in queue if one.namespace == row.namespace]
    ids, own_ids = [one.id for one in queue], [one.id for one in own]
    if row.id not in ids:
        return None
    return Position(ids.index(row.id) + 1, len(ids), own_ids.index(row.id) + 1, len(own_ids))


def _on_its_way(view: View, row: PodRow) -> Explanation:
    """A pod that has its devices, or is over."""
    found = checks.of_placed(row)
    if row.state in ("reserved", "binding"):
        text = phrase("Devices on %(node)s are chosen; the scheduler has yet to bind it.", node=row.node)
        return Explanation(Verdict.WAITING_FOR_BIND, text, view.clock.revision, found)
    if row.unmanaged:
        text = phrase("It came past the webhook and is not placed by this platform.")
        return Explanation(Verdict.NOT_OURS, text, view.clock.revision, found)
    text = phrase("It has its devices on %(node)s.", node=row.node)
    return Explanation(Verdict.HEALTHY, text, view.clock.revision, found)
