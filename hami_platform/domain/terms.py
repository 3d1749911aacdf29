"""What holds for every node of one decision: the pod's constraints, the policy, the limits, the vendors' strategies.

Read once, then only looked at. Knows no node but in `binding_headroom`, and tries nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hami_platform.domain import gate, quota, score
from hami_platform.domain.nodes import NodeState, needs
from hami_platform.domain.requests import Constraints, DeviceRequest, PodRequest
from hami_platform.domain.strategy import DEFAULT, Strategies, Strategy


@dataclass(frozen=True, slots=True)
class VendorTerms:
    """What holds for one vendor's devices. plain: nothing but amounts and the device's own state can exclude one."""

    wanted: Constraints
    policy: score.DevicePolicy
    strategy: Strategy = DEFAULT
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """Everything about a decision that does not depend on the node.

    gate None: quota does not refuse. special: some vendor asked for has a strategy of its own. scored: the node score
    depends on the devices chosen. spreads: the emptiest node is wanted.
    """

    constraints: Constraints
    vendors: Mapping[str, VendorTerms]
    gate: gate.Gate | None = None
    whole_is_largest: bool = False
    spreads: bool = False
    special: bool = False
    scored: bool = False
    strategies: Strategies = field(default_factory=dict)

    def of(self, vendor: str) -> VendorTerms:
        """The terms of one vendor that the pod asks for."""
        return self.vendors[vendor]

    def floors(self, request: PodRequest) -> tuple[DeviceRequest, ...]:
        """What certainly must be free, request by request: a node that lacks one of them cannot fit."""
        asks = needs(request)
        if not self.special:
            return asks
        return tuple(dict.fromkeys(self.vendors[ask.vendor].strategy.floor(ask) for ask in asks))


def terms_of(
    request: PodRequest,
    defaults: score.Defaults,
    headroom: quota.Headroom,
    strategies: Strategies | None = None,
) -> Terms:
    """Read a request's constraints once, for all nodes. strategies: of the vendors that are not served as most are."""
    strategies = strategies or {}
    vendors = {word: _of_vendor(word, request.constraints, defaults, strategies) for word in request.vendors}
    special = any(one.strategy is not DEFAULT for one in vendors.values())
    return Terms(
        request.constraints,
        vendors,
        gate.gate_of(headroom, request),
        defaults.whole_card_as_largest_profile,
        score.spreads_nodes(request.constraints, defaults),
        special,
        special and any(one.strategy.score is not None for one in vendors.values()),
        strategies,
    )


def _of_vendor(word: str, constraints: Constraints, defaults: score.Defaults, strategies: Strategies) -> VendorTerms:
    wanted = constraints.of(word)
    policy = score.device_policy(wanted, defaults)
    lists = (wanted.use_models, wanted.nouse_models, wanted.use_uuids, wanted.nouse_uuids, wanted.vgpu_mode)
    plain = not policy.mutex and all(part is None for part in lists)
    return VendorTerms(wanted, policy, strategies.get(word, DEFAULT), plain)


def binding_headroom(node: NodeState, terms: Terms) -> quota.Headroom | None:
    """The headroom of the decision, or None where quota cannot refuse on this node."""
    if terms.gate is None:
        return None
    if terms.special:  # what is taken may be more than what is asked
        return terms.gate.headroom
    for ranks in node.ranks.values():
        if ranks.mig or not terms.gate.never_refuses(ranks.largest_mib):
            return terms.gate.headroom
    return None
