"""The Kubernetes events of a `/filter` decision, with HAMi's reasons and texts (v2.10.0).

Must not know: how decisions are made, or how events are written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from accounting.services import placements, seen
from hami_platform import env
from hami_platform.domain import explain, headlines, place
from hami_platform.domain.reasons import Reason
from scheduler_ext import events

FAILED, SUCCEEDED = "FilteringFailed", "FilteringSucceed"
TOLD_NODES = 20  # names in an event; its message is cut at 1024 anyway
COUNTED_NODES = 200  # refusals over more nodes are told without the reasons: counting them all would take too long


def tell(asked: seen.PodSeen, answer: placements.FilterAnswer, candidates: int) -> None:
    """Say where the pod goes, or why nowhere, and for each reason on which nodes."""
    if answer.error:
        tell_error(asked, answer.error)
        return
    if answer.node:
        events.tell(_event(asked, SUCCEEDED, _success(answer), events.NORMAL))
        return
    failure = _event(asked, FAILED, f"no available node, {candidates} nodes do not meet", events.WARNING)
    events.tell(failure, lambda: _more(asked, answer))


def tell_error(asked: seen.PodSeen, error: str) -> None:
    """Say that no answer could be given."""
    events.tell(_event(asked, FAILED, error, events.WARNING))


def _success(answer: placements.FilterAnswer) -> str:
    fitting = answer.decision.fitting if answer.decision else ()
    fits = ",".join(f"{name}:{score:.2f}" for name, score in fitting[:TOLD_NODES])
    not_fit = len(answer.decision.rejections) if answer.decision else 0
    return f"find fit node({answer.node}), {not_fit} nodes not fit, {len(fitting)} nodes fit({fits})"


def _more(asked: seen.PodSeen, answer: placements.FilterAnswer) -> Iterator[events.PodEvent]:
    """HAMi's events by reason, and the sentence that page, REST and command line have, too."""
    decision = answer.decision
    if decision is not None:
        yield from _reasons(asked, decision)
    if not env.current().strict_hami:
        yield _event(asked, FAILED, _sentence(answer), events.WARNING)


def _sentence(answer: placements.FilterAnswer) -> str:
    """Which limit, or what is missing on the nearest node; over many nodes, which reasons how often."""
    if answer.excess is not None:
        return str(headlines.of_limit(answer.excess))
    if answer.decision is None:
        return f"{Reason.RESOURCE_QUOTA_NOT_FIT.value}: {answer.quota}"
    if len(answer.decision.rejections) > COUNTED_NODES:
        return place.summary(answer.decision.rejections)
    return str(explain.headline(answer.decision, None))


def _reasons(asked: seen.PodSeen, decision: place.Decision) -> Iterator[events.PodEvent]:
    """One event for each reason that refused a device: `2 nodes CardNotHealth(n1,n2)`."""
    if len(decision.rejections) > COUNTED_NODES:
        return
    nodes: dict[str, list[str]] = defaultdict(list)
    for name, rejection in decision.rejections.items():
        for reason in rejection.counts:
            nodes[reason.value].append(name)
    for word in sorted(nodes):
        names = ",".join(sorted(nodes[word]))
        yield _event(asked, FAILED, f"{len(nodes[word])} nodes {word}({names})", events.WARNING)


def _event(asked: seen.PodSeen, reason: str, message: str, type_: str) -> events.PodEvent:
    return events.PodEvent(asked.namespace, asked.name, asked.uid, reason, message, type_)
