"""What would make a waiting pod fit: the smallest changes, each tried before it is offered.

A draft is a change of the View, of the request, or of both. Only a draft on which the very decision succeeds becomes a
fix (a law). Knows no role and no page: who may do a step is a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

from hami_platform.domain import place
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.rows import Changes
from hami_platform.domain.sentences import Sentence
from hami_platform.domain.view import View
from hami_platform.domain.what_if import Answer, Ask, Decide

OWNER, TENANT_ADMIN, OPERATOR = "owner", "tenant admin", "operator"
"""Who may do a step: whoever owns the pod, whoever sets the namespace's limits, whoever runs the cluster."""


class Kind(StrEnum):
    """What a step changes, in the order in which fixes are offered."""

    QUOTA = "quota"
    CORDON = "cordon"
    MEMORY = "memory"
    CORES = "cores"
    DEVICES = "devices"
    CONSTRAINT = "constraint"
    RESERVED = "reserved"
    HOLD = "hold"
    LOCK = "lock"
    MOVE = "move"
    PREEMPT = "preempt"
    WAIT = "wait"
    HEALTH = "health"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. target: what it is done to: (rule, resource), (node, vendor, uuid), (hold id,), (pod id,),
    (annotation kind,). value: the new amount, where there is one."""

    kind: Kind
    action: Sentence
    role: str
    target: tuple[str, ...] = ()
    value: int | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A change that may help. request None: as it is. size: how much it changes, to order drafts of one kind."""

    steps: tuple[Step, ...]
    changes: Changes = field(default_factory=Changes)
    request: PodRequest | None = None
    size: float = 0.0

    def applied(self, view: View, ask: Ask) -> tuple[View, Ask]:
        """The View and the ask after the change."""
        asked = ask if self.request is None else replace(ask, request=self.request)
        return view.fold(self.changes), asked

    def __add__(self, other: Draft) -> Draft:
        return Draft(
            self.steps + other.steps,
            merged(self.changes, other.changes),
            other.request or self.request,
            self.size + other.size,
        )


@dataclass(frozen=True, slots=True)
class Fix:
    """A draft that was tried, and where the pod goes then."""

    draft: Draft
    placement: place.Placement

    @property
    def steps(self) -> tuple[Step, ...]:
        """What to do, all of it."""
        return self.draft.steps

    @property
    def order(self) -> tuple[int, int, float]:
        """The smallest change first: by number of steps, by kind, by size."""
        kinds = list(Kind)
        return (len(self.steps), max(kinds.index(step.kind) for step in self.steps), self.draft.size)


@dataclass(frozen=True, slots=True)
class Scene:
    """Where fixes are looked for. near: nodes worth a look, nearest first. base: what is changed already."""

    view: View
    ask: Ask
    answer: Answer
    decide: Decide
    near: Sequence[str]
    base: Draft | None = None

    def tried(self, draft: Draft, names: Sequence[str] | None = None) -> Answer:
        """The decision after the draft; on these nodes only, where names are given."""
        view, ask = draft.applied(self.view, self.ask)
        return self.decide(view, ask, names)

    def after(self, draft: Draft) -> Scene:
        """The scene as if the draft was done."""
        view, ask = draft.applied(self.view, self.ask)
        answer = self.decide(view, ask, None)
        return Scene(view, ask, answer, self.decide, self.near, draft if self.base is None else self.base + draft)

    def fix(self, draft: Draft) -> Fix | None:
        """The draft as a fix, if it is one: tried on every node."""
        placement = self.tried(draft).placement
        if placement is None:
            return None
        return Fix(draft if self.base is None else self.base + draft, placement)


Search = Callable[[Scene], Iterable[Draft]]


def verified(scene: Scene, searches: Iterable[Search]) -> Iterator[Fix]:
    """What the searches find, tried."""
    for search in searches:
        for draft in search(scene):
            fix = scene.fix(draft)
            if fix is not None:
                yield fix


def best(found: Iterable[Fix], most: int, each: int = 2) -> tuple[Fix, ...]:
    """The smallest changes, at most `each` of a kind and no two that do the same."""
    taken: dict[tuple[Step, ...], Fix] = {}
    per_kind: dict[tuple[Kind, ...], int] = {}
    for fix in sorted(found, key=lambda fix: fix.order):
        kinds = tuple(sorted({step.kind for step in fix.steps}))
        if fix.steps not in taken and per_kind.get(kinds, 0) < each:
            taken[fix.steps] = fix
            per_kind[kinds] = per_kind.get(kinds, 0) + 1
    return tuple(list(taken.values())[:most])


def merged(first: Changes, then: Changes) -> Changes:
    """Both changes, the later one standing where they touch the same row."""
    parts = {one.name: {**getattr(first, one.name), **getattr(then, one.name)} for one in fields(Changes)[1:]}
    return Changes(then.clock or first.clock, **parts)
