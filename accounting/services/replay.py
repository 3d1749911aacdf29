"""Takes a kept decision again, on exactly what it was taken on, and says whether the answer is the same.

Nothing is written. Must not know: who asks, and how it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import msgspec

from accounting.models import Trace
from accounting.services import (
    claims,
    decision_changes,
    decision_inputs,
    decision_texts,
    device_config,
    kept_inputs,
    placements,
)
from hami_platform.domain import lifecycle, place
from hami_platform.domain.errors import ConfigError
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.reasons import Reason
from hami_platform.domain.view import View

ADMISSION: Final = ("admitted", "gated", "denied")
"""Verdicts of the webhook; the others are of `/filter`."""


class Outcome(StrEnum):
    """What came of taking a decision again."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


class Unknown(StrEnum):
    """Why a decision cannot be taken again. The first ones were known when it was kept."""

    NOTHING = "nothing"
    OFF = "off"
    BUDGET = "budget"
    SPELLING = "spelling"
    POD = "pod"
    DROPPED = "dropped"
    MISSING = "missing"
    FORMAT = "format"


@dataclass(frozen=True, slots=True)
class Again:
    """The answer as it comes out now, in the form in which decisions are kept."""

    verdict: str
    reason: str
    summary: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that came out otherwise: with the same inputs, the program or its rules have changed since."""

    what: str
    then: Any
    again: Any


@dataclass(frozen=True, slots=True)
class Replay:
    """unknown, missing: why it could not be taken again, and of which part a piece is missing. hash: of the inputs
    that were found, each piece checked. changes: which inputs are others today; None: the pod is no more, so that
    nothing would be asked today."""

    outcome: Outcome
    again: Again | None = None
    differences: tuple[Difference, ...] = ()
    unknown: Unknown | None = None
    missing: str = ""
    hash: str = ""
    nodes: int = 0
    candidates: int = 0
    changes: decision_changes.Changed | None = None


@dataclass(frozen=True, slots=True)
class _Taken:
    """A choice with what it was made of, and what came of it."""

    choice: decision_inputs.Choice
    nodes: Mapping[str, NodeState]
    candidates: Sequence[str]
    decision: place.Decision


def replayed(trace: Trace, view: View, *, most: int = decision_changes.MOST) -> Replay:
    """Take the decision again. view: the ledger as it is now, to say what has changed since. most: changes named."""
    if not trace.inputs_hash:
        return Replay(Outcome.UNKNOWN, unknown=Unknown(trace.detail.get("not_kept", Unknown.FORMAT)))
    hour = kept_inputs.hour_of(trace.last_at)
    if not kept_inputs.hour_exists(trace.cluster_id, hour):
        return Replay(Outcome.UNKNOWN, unknown=Unknown.DROPPED)
    source = kept_inputs.source(trace.cluster_id, hour)
    try:
        found = decision_inputs.inputs(trace.inputs_hash, source)
        if found.version != decision_inputs.VERSION:
            return Replay(Outcome.UNKNOWN, unknown=Unknown.FORMAT)
        return _replayed(trace, view, found, source, most)
    except decision_inputs.Missing as missing:
        return Replay(Outcome.UNKNOWN, unknown=Unknown.MISSING, missing=missing.part)
    except (msgspec.DecodeError, ConfigError):  # kept by another release, with fields or words that we do not have
        return Replay(Outcome.UNKNOWN, unknown=Unknown.FORMAT)


def _replayed(
    trace: Trace, view: View, inputs: decision_inputs.Inputs, source: decision_inputs.Source, most: int
) -> Replay:
    claim = next((one for one in inputs.steps if isinstance(one, decision_inputs.Claim)), None)
    taken = [_taken(one, source) for one in inputs.steps if isinstance(one, decision_inputs.Choice)]
    again = _admission(claim) if trace.verdict in ADMISSION and claim is not None else _filter(claim, taken)
    differences = tuple(_differences(trace, again, taken))
    last = taken[0] if taken else None
    changes = decision_changes.changes(
        view, trace.pod_uid, trace.namespace, claim, last.choice if last else None, last.nodes if last else {},
        last.candidates if last else (), most=most,
    )  # fmt: skip
    return Replay(
        Outcome.DIFFERENT if differences else Outcome.SAME, again, differences, hash=trace.inputs_hash,
        nodes=len(last.nodes) if last else 0, candidates=len(last.candidates) if last else 0, changes=changes,
    )  # fmt: skip


def _taken(choice: decision_inputs.Choice, source: decision_inputs.Source) -> _Taken:
    nodes = decision_inputs.nodes(choice, source)
    candidates = decision_inputs.candidates(choice, nodes, source)
    config = device_config.of_text(decision_inputs.config(choice, source))
    decision = place.place(
        nodes, candidates, choice.request, headroom=choice.headroom, defaults=choice.defaults,
        strategies=config.strategies,
    )  # fmt: skip
    return _Taken(choice, nodes, candidates, decision)


def _weighed(claim: decision_inputs.Claim) -> claims.Verdict:
    return claims.weighed(claim.mode, claim.headroom, lifecycle.lower_bound(claim.request, claim.kinds))


def _admission(claim: decision_inputs.Claim) -> Again:
    answer = claims.answered(_weighed(claim), claim.pending)
    verdict = "denied" if not answer.granted else "gated" if answer.gated else "admitted"
    reason = "" if verdict == "admitted" else Reason.RESOURCE_QUOTA_NOT_FIT.value
    return Again(verdict, reason, claims.told(answer)[: decision_texts.SUMMARY_MAX], {})


def _filter(claim: decision_inputs.Claim | None, taken: Sequence[_Taken]) -> Again:
    decision = taken[-1].decision if taken else None
    detail = decision_texts.detail(decision)
    if claim is not None or decision is None:
        text = placements.quota_text(_weighed(claim)) if claim is not None else ""
        return Again("refused", Reason.RESOURCE_QUOTA_NOT_FIT.value, text[: decision_texts.SUMMARY_MAX], detail)
    if decision.placement is not None:
        return Again("placed", "", decision_texts.summary(decision), detail)
    reason = place.dominant_text(decision.rejections)
    return Again("refused", reason, decision_texts.summary(decision), detail)


def _differences(trace: Trace, again: Again, taken: Sequence[_Taken]) -> list[Difference]:
    kept = Again(
        trace.verdict, trace.reason, trace.summary,
        {name: value for name, value in trace.detail.items() if name != "not_kept"},
    )  # fmt: skip
    if len(taken) > 1:  # the first one found the node that the second one was asked about
        found = taken[0].decision.placement
        if found is None or [found.node] != list(taken[1].candidates):
            again = replace(again, summary=f"node {found.node}" if found else "no node")
    then, now = msgspec.to_builtins(kept), msgspec.to_builtins(again)
    return [Difference(name, then[name], now[name]) for name in then if then[name] != now[name]]
