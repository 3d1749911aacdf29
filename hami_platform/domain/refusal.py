"""Why a node refuses a request, without trying it: the counts that `fit` would give, from what the node holds.

The short way of a cluster-wide refusal, where every node has to say why. Where it does not know, it says nothing.
"""

from __future__ import annotations

from hami_platform.domain import conditions, nodes
from hami_platform.domain.nodes import MAX_CORE_PERCENT, DeviceState, NodeState
from hami_platform.domain.reasons import Reason, Rejection
from hami_platform.domain.requests import Constraints, DeviceRequest
from hami_platform.domain.strategy import DEFAULT
from hami_platform.domain.terms import Terms, VendorTerms, binding_headroom


def refusal_of(node: NodeState, ask: DeviceRequest, terms: Terms) -> Rejection | None:
    """The rejection that `fit` gives a pod whose first request is `ask`, without trying it.

    None where the short way does not know: the request can be met, or order matters (quota, NUMA groups, MIG).
    Law: an answer equals that of `fit`.
    """
    if node.blocked is not None:
        return Rejection(whole=node.blocked)
    ranks = node.ranks.get(ask.vendor)
    if ranks is None:
        return Rejection(whole=Reason.NODE_INSUFFICIENT_DEVICE)
    own = terms.of(ask.vendor)
    if ranks.mig or own.policy.numa_bind or own.strategy is not DEFAULT:
        return None
    if ask.count > ranks.registered:
        return Rejection(whole=Reason.NODE_INSUFFICIENT_DEVICE)
    counts = _refused_by_quota(ranks, ask, terms) if terms.gate else None
    if counts is None and binding_headroom(node, terms) is not None:
        return None
    if counts is None and own.plain:
        counts = nodes.refused_by_rank(ranks, ask)
    if counts is None:
        counts = _refused_by_device(node, ask, own)
    return Rejection(counts, ranks.registered) if counts is not None else None


def _refused_by_quota(ranks: nodes.Ranks, ask: DeviceRequest, terms: Terms) -> dict[Reason, int] | None:
    """Counts where quota refuses every open device as the pod's first; memory and cores are tested after it."""
    gated, core_percent = terms.gate, min(ask.core_percent, MAX_CORE_PERCENT)
    if gated is None or not terms.of(ask.vendor).plain or not ranks.kinds:
        return None
    if not all(gated.refuses_first(ask, kind, core_percent) for kind in ranks.kinds):
        return None
    return {**dict(ranks.closed), Reason.RESOURCE_QUOTA_NOT_FIT: len(ranks.memory_mib)}


def _refused_by_device(node: NodeState, ask: DeviceRequest, terms: VendorTerms) -> dict[Reason, int] | None:
    counts: dict[Reason, int] = {}
    good = 0
    vendor, core_percent, mutex = ask.vendor, min(ask.core_percent, MAX_CORE_PERCENT), terms.policy.mutex
    for state in node.devices:
        device = state.device
        if device.vendor != vendor:
            continue
        reason = state.unusable if terms.plain else _excluded(state, terms.wanted)
        if reason is None:
            reason = conditions.amounts(state, ask.memory_on(device.memory_mib), core_percent, mutex)
        if reason is None:
            good += 1
        else:
            counts[reason] = counts.get(reason, 0) + 1
    if good >= ask.count:
        return None
    if good:
        counts[Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST] = good
    return counts


def _excluded(state: DeviceState, wanted: Constraints) -> Reason | None:
    reason = conditions.standing(state, wanted)
    return reason or (None if conditions.is_wanted_uuid(state.device, wanted) else Reason.CARD_UUID_MISMATCH)
