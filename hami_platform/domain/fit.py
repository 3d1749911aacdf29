"""Whether a pod fits on one node, on which devices, and if not, why: exact, and in HAMi's order.

Works on trial copies and returns values. Knows one node and one pod; which node is best is `place`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from hami_platform.domain import quota, score, strategy, trial, walk
from hami_platform.domain.devices import ContainerKind, Share
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.reasons import Rejection
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.terms import Terms, binding_headroom, terms_of


@dataclass(frozen=True, slots=True)
class Fitted:
    """A pod that fits: its rows in container order, devices in the policy's order, and the node score before it,
    with what the vendors add for these devices."""

    shares: tuple[Share, ...]
    score: float


def fit_pod(
    node: NodeState,
    request: PodRequest,
    defaults: score.Defaults = score.DEFAULTS,
    headroom: quota.Headroom = quota.UNLIMITED,
) -> Fitted | Rejection:
    """Fit a whole pod on one node. See `fit`."""
    return fit(node, request, terms_of(request, defaults, headroom))


def fit(node: NodeState, request: PodRequest, terms: Terms) -> Fitted | Rejection:
    """Fit the pod's containers one after another; the first that does not fit gives the reason.

    Sidecars and apps add up; an ordinary init container is tried beside the sidecars that are started before it.
    """
    if node.blocked is not None:
        return Rejection(whole=node.blocked)
    headroom = binding_headroom(node, terms)
    base = [trial.Trial(state) for state in node.devices]
    sequence = trial.Sequence()
    rows: list[Share] = []
    for index, container in enumerate(request.containers):
        if container.devices:
            trials = [t.copy() for t in base] if container.kind is ContainerKind.INIT else base
            taken = walk.fit_container(walk.Site(node, terms, headroom, sequence, index, container), trials)
            if isinstance(taken, Rejection):
                return taken
            sequence.add(container.kind, taken)
            rows += taken
    return Fitted(tuple(rows), node.score + _bonus(node, rows, terms))


def _bonus(node: NodeState, rows: Iterable[Share], terms: Terms) -> float:
    """What the vendors' own scores add for these rows."""
    if not terms.scored:
        return 0.0
    outcomes = (
        (strategy.Outcome(node, [row for row in rows if row.vendor == word], own.wanted, terms.spreads), own.strategy)
        for word, own in terms.vendors.items()
    )
    return sum(strategy.score_of(outcome, own) for outcome, own in outcomes)


def charges(shares: Iterable[Share]) -> tuple[quota.Charge, ...]:
    """What a pod with these rows is charged: the greatest amounts it holds on each device over its life."""
    sequence = trial.Sequence()
    rows = tuple(shares)
    for _, group in itertools.groupby(rows, key=lambda share: share.container_index):
        of_container = tuple(group)
        sequence.add(of_container[0].kind, of_container)
    models = {share.key: share.model for share in rows}
    return quota.charges_of(sequence.held(), models, sequence.largest_mib)
