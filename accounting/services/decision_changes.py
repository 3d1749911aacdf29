"""Which inputs of a decision are others today: the request, the limits and their use, the nodes, the policies.

Compares values; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, Final

from accounting.services import claims, decision_inputs, device_config, placements
from hami_platform.domain.nodes import DeviceState, NodeState
from hami_platform.domain.quota import Headroom
from hami_platform.domain.rows import PodRow
from hami_platform.domain.view import View

MOST: Final = 100
"""Changes that are named; thousands of nodes may have changed."""


@dataclass(frozen=True, slots=True)
class Change:
    """One value. part: request, limits, nodes, policy or configuration. subject: the limit, or node and device. None:
    there was no such thing, or there is none any more."""

    part: str
    subject: str
    field: str
    then: Any
    now: Any


@dataclass(frozen=True, slots=True)
class Changed:
    """found: the first changes. more: whether there are others. revision: of the ledger, at which was looked."""

    found: tuple[Change, ...]
    more: bool
    revision: int


def changes(
    view: View,
    uid: str,
    namespace: str,
    claim: decision_inputs.Claim | None,
    choice: decision_inputs.Choice | None,
    nodes: Mapping[str, NodeState],
    candidates: Sequence[str],
    *,
    most: int = MOST,
) -> Changed | None:
    """What differs today, the first `most` of it. None where the pod is no more; a denied one is asked about as if it
    came again."""
    row = _row(view, uid)
    if row is None and not uid.startswith("denied-"):
        return None
    found = _all(view, row, namespace, claim, choice, nodes, candidates)
    shown = tuple(islice(found, most))
    return Changed(shown, next(found, None) is not None, view.clock.revision)


def _row(view: View, uid: str) -> PodRow | None:
    return view.pod(uid) or next((row for row in view.pods.values() if row.claim_id == uid), None)


def _all(
    view: View,
    row: PodRow | None,
    namespace: str,
    claim: decision_inputs.Claim | None,
    choice: decision_inputs.Choice | None,
    nodes: Mapping[str, NodeState],
    candidates: Iterable[str],
) -> Iterator[Change]:
    asked = claim or choice
    if row is not None and asked is not None and row.request != asked.request:
        yield from _values("request", row.name, asked.request, row.request)
    own = row.id if row is not None else None
    if claim is not None:
        now = claims.judge(view, namespace, (), without=own)
        if now.mode != claim.mode:
            yield Change("limits", namespace, "mode", claim.mode, now.mode)
        yield from _limits(claim.headroom, now.headroom)
    elif choice is not None:
        yield from _limits(choice.headroom, claims.with_limits_counted(view, namespace, without=own))
    if choice is not None:
        yield from _values("policy", "", choice.defaults, placements.defaults())
        if choice.config != _config_digest():
            yield Change("configuration", "", "text", choice.config, _config_digest())
        yield from _nodes(nodes, placements.states_without(view, row), candidates)


def _config_digest() -> str:
    text = device_config.source()
    return decision_inputs.digest_of(text.encode()) if text else ""


def _limits(then: Headroom, now: Headroom) -> Iterator[Change]:
    before = {rule.name: (rule, used) for rule, used in then.rules}
    after = {rule.name: (rule, used) for rule, used in now.rules}
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            yield Change("limits", name, "exists", name in before, name in after)
            continue
        (rule, used), (rule_now, used_now) = before[name], after[name]
        yield from _values("limits", name, rule.selector, rule_now.selector)
        yield from _values("limits", name, rule.limits, rule_now.limits)
        yield from _values("limits", name, used, used_now, prefix="used ")


def _nodes(then: Mapping[str, NodeState], now: Mapping[str, NodeState], candidates: Iterable[str]) -> Iterator[Change]:
    for name in sorted(candidates):
        before, after = then.get(name), now.get(name)
        if before is after or before == after:
            continue
        if before is None or after is None:
            yield Change("nodes", name, "exists", before is not None, after is not None)
            continue
        if before.blocked != after.blocked:
            yield Change("nodes", name, "blocked", before.blocked, after.blocked)
        yield from _devices(name, before.devices, after.devices)
        if before.pair_scores != after.pair_scores:
            yield Change("nodes", name, "pair_scores", len(before.pair_scores), len(after.pair_scores))


def _devices(node: str, then: Iterable[DeviceState], now: Iterable[DeviceState]) -> Iterator[Change]:
    before, after = ({one.device.key: one for one in states} for states in (then, now))
    for key in sorted({*before, *after}):
        subject = f"{node} {key[1]}"
        if key not in before or key not in after:
            yield Change("nodes", subject, "exists", key in before, key in after)
            continue
        yield from _values("nodes", subject, before[key].device, after[key].device)
        yield from _values("nodes", subject, before[key].held, after[key].held, prefix="held ")


def _values(part: str, subject: str, then: Any, now: Any, *, prefix: str = "") -> Iterator[Change]:
    """Field by field, of two values of one class."""
    for one in fields(then):
        before, after = getattr(then, one.name), getattr(now, one.name)
        if before != after:
            yield Change(part, subject, prefix + one.name, before, after)
