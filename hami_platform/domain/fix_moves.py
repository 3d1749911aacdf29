"""Pods in the way that have room elsewhere: deleted, their controllers make them anew, and they fit beside the one that
waits.

Tries the whole exchange on a copy: the one that waits takes its place, then each of the others finds a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hami_platform.domain import what_if
from hami_platform.domain.fixes import OPERATOR, Draft, Kind, Scene, Step
from hami_platform.domain.rows import Changes, PodRow
from hami_platform.domain.sentences import phrase
from hami_platform.domain.what_if import Ask

MOST_MOVES = 4
_ASKING = -1
"""Id of the row that stands for the pod that waits, on the copy."""


def elsewhere(scene: Scene, draft: Draft) -> Iterator[Draft]:
    """The draft's pods in other places, if each has a controller and there is room for all of them."""
    rows = [scene.view.pods[number] for number in draft.changes.pods]
    if len(rows) > MOST_MOVES or not all(row.owner for row in rows):
        return
    view, ask = draft.applied(scene.view, scene.ask)
    placement = scene.decide(view, ask, [row.node for row in rows]).placement
    if placement is None:
        return
    taken = PodRow(
        _ASKING, "asking", "", ask.namespace, "asking", "reserved", ask.request,
        node=placement.node, shares=placement.shares,
    )  # fmt: skip
    own: dict[int, PodRow | None] = {_ASKING: taken} | ({ask.pod: None} if ask.pod is not None else {})
    view = view.fold(Changes(pods=own))
    moved: dict[int, PodRow | None] = {}
    steps = []
    for row in what_if.in_order(rows):
        found = scene.decide(view, Ask(row.namespace, row.request, None, row.priority), None).placement
        if found is None or not found.shares:
            return
        new = replace(row, state="reserved", node=found.node, shares=found.shares, claim_charges=())
        moved[row.id] = new
        view = view.fold(Changes(pods={row.id: new}))
        steps.append(_step(row, found.node))
    yield Draft(tuple(steps), Changes(pods=moved), size=draft.size)


def _step(row: PodRow, node: str) -> Step:
    action = phrase(
        "Delete %(pod)s on %(node)s: its controller makes it anew, and there is room for it on %(to)s.",
        pod=f"{row.namespace}/{row.name}", node=row.node, to=node,
    )  # fmt: skip
    return Step(Kind.MOVE, action, OPERATOR, (str(row.id),))
