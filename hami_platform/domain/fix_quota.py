"""Limits that would have to be raised, each to what is needed and no further.

Raises one limit after the other until quota refuses no longer; whether devices suffice is the decision's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from hami_platform.domain import fit, place, quota
from hami_platform.domain.fixes import OPERATOR, OWNER, TENANT_ADMIN, Draft, Fix, Kind, Scene, Step, merged
from hami_platform.domain.rows import Changes, NativeRow, PodRow, QuotaRow
from hami_platform.domain.sentences import Sentence, Value, phrase
from hami_platform.domain.terms import terms_of
from hami_platform.domain.view import View

MOST_ROUNDS = 12
MOST_PODS = 12


def raised(scene: Scene) -> Iterator[Draft]:
    """The limits to raise, if any refuses: one draft."""
    draft = Draft(())
    answer = scene.answer
    for _ in range(MOST_ROUNDS):
        if answer.placement is not None:
            break
        excess = answer.excess if answer.stops else excess_on_a_node(answer.decision, scene.near)
        one = _raise(draft.applied(scene.view, scene.ask)[0], scene.ask.namespace, excess) if excess else None
        if one is None:
            break
        draft = Draft(_once(draft.steps, one.steps), merged(draft.changes, one.changes), size=draft.size + one.size)
        answer = scene.tried(draft)
    if draft.steps:
        yield draft


def freed(scene: Scene) -> Iterator[Draft]:
    """A pod of the same scope whose end would give the limit back what this one needs: the smallest."""
    excess = scene.answer.excess if scene.answer.stops else excess_on_a_node(scene.answer.decision, scene.near)
    if excess is None or excess.resource not in quota.SUMS:
        return
    enough = excess.used + excess.asked - excess.limit
    holding = [(_charged(row, excess.resource), row) for row in scene.view.pods.values() if row.held]
    holding = [(amount, row) for amount, row in holding if amount >= enough]
    for _, row in sorted(holding, key=lambda one: (one[0], one[1].id))[:MOST_PODS]:
        step = Step(Kind.WAIT, _when_ended(row, excess), OWNER, (str(row.id),))
        draft = Draft((step,), Changes(pods={row.id: None}), size=_charged(row, "memory_mib") / 1024)
        if scene.tried(draft, scene.near).placement is not None:
            yield draft
            return


def _charged(row: PodRow, resource: str) -> int:
    return sum(int(getattr(charge.amounts, resource)) for charge in row.charges)


def _when_ended(row: PodRow, excess: quota.Excess) -> Sentence:
    return phrase(
        "Wait until %(pod)s ends: it takes part of quota %(rule)s.", pod=f"{row.namespace}/{row.name}", rule=excess.rule
    )


def exact(scene: Scene, fix: Fix) -> Fix:
    """The fix with limits raised to what it needs beside its other steps: they were raised for the pod as it was."""
    draft = fix.draft
    steps = tuple(step for step in draft.steps if step.kind is not Kind.QUOTA)
    if not steps or len(steps) == len(draft.steps):
        return fix
    rest = replace(draft, steps=steps, changes=replace(draft.changes, quotas={}, natives={}))
    after = scene.after(rest)
    needed = next(iter(raised(after)), None) if after.answer.placement is None else None
    return scene.fix(rest if needed is None else needed + rest) or fix


def _once(steps: tuple[Step, ...], more: tuple[Step, ...]) -> tuple[Step, ...]:
    """A limit that is raised twice is raised once, to the later amount."""
    targets = {step.target for step in more}
    return (*(step for step in steps if step.target not in targets), *more)


def excess_on_a_node(decision: place.Decision, names: Iterable[str]) -> quota.Excess | None:
    """The limit that stands in the way of one of these nodes, on which the pod would fit but for quota."""
    question = decision.question
    if not question.headroom.enforced or not question.headroom.rules:
        return None
    free = terms_of(question.request, question.defaults, quota.UNLIMITED, question.terms.strategies)
    for name in names:
        node = question.nodes.get(name)
        fitted = fit.fit(node, question.request, free) if node is not None else None
        if isinstance(fitted, fit.Fitted):
            return quota.excess(question.headroom, fit.charges(fitted.shares))
    return None


def _raise(view: View, namespace: str, excess: quota.Excess) -> Draft | None:
    """The broken limit at what the pod needs."""
    needed = excess.used + excess.asked
    size = (needed - excess.limit) / max(1, needed)
    native = f"{namespace}/resourcequota/"
    if excess.rule.startswith(native):
        return _raise_native(view, namespace, excess, size)
    rows = {key: row for key, row in view.quotas.items() if _is(row, excess) and row.in_force}
    bound = {key: row for key, row in rows.items() if row.namespace in (None, namespace)}
    if not bound:
        return None
    changed: dict[int, QuotaRow | None] = {key: _with(row, excess.resource, needed) for key, row in bound.items()}
    role = OPERATOR if any(row.namespace is None for row in bound.values()) else TENANT_ADMIN
    step = Step(Kind.QUOTA, _action(excess, needed), role, (excess.rule, excess.resource), needed)
    return Draft((step,), Changes(quotas=changed), size=size)


def _raise_native(view: View, namespace: str, excess: quota.Excess, size: float) -> Draft | None:
    name = excess.rule.rpartition("/")[2]
    needed = excess.used + excess.asked
    changed: dict[int, NativeRow | None] = {
        key: replace(row, limit=needed)
        for key, row in view.natives.items()
        if row.namespace == namespace and row.resource == excess.resource and row.limit == excess.limit
        and row.object_name == name
    }  # fmt: skip
    if not changed:
        return None
    step = Step(Kind.QUOTA, _action(excess, needed), TENANT_ADMIN, (excess.rule, excess.resource), needed)
    return Draft((step,), Changes(natives=changed), size=size)


def _is(row: QuotaRow, excess: quota.Excess) -> bool:
    return row.rule.name == excess.rule and getattr(row.rule.limits, excess.resource, None) == excess.limit


def _with(row: QuotaRow, resource: str, limit: int) -> QuotaRow:
    limits = replace(row.rule.limits, **{resource: limit})
    return replace(row, rule=replace(row.rule, limits=limits))


def _action(excess: quota.Excess, needed: int) -> Sentence:
    values: dict[str, Value] = {"rule": excess.rule, "limit": excess.limit, "needed": needed}
    if excess.resource == "device_memory_mib":
        return phrase("Raise %(rule)s from %(limit)s to %(needed)s MiB on one device.", **values)
    word = excess.resource.removeprefix("pod_")
    a_pod = excess.resource.startswith("pod_")
    if word == "devices":
        return (
            phrase("Raise %(rule)s from %(limit)s to %(needed)s devices a pod.", **values)
            if a_pod
            else phrase("Raise %(rule)s from %(limit)s to %(needed)s devices.", **values)
        )
    if word == "core_percent":
        return (
            phrase("Raise %(rule)s from %(limit)s to %(needed)s %% of cores a pod.", **values)
            if a_pod
            else phrase("Raise %(rule)s from %(limit)s to %(needed)s %% of cores.", **values)
        )
    return (
        phrase("Raise %(rule)s from %(limit)s to %(needed)s MiB a pod.", **values)
        if a_pod
        else phrase("Raise %(rule)s from %(limit)s to %(needed)s MiB.", **values)
    )
