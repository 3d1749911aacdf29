"""What holds for every node of one decision: the pod's constraints, the policy, the limits, the vendors' strategies.

Read once, then only looked at. Knows no node but in `binding_headroom`, and tries nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hami_platform.domain import conditions, gate, quota, score
from hami_platform.domain.nodes import DeviceState, NodeState, PairScores
from hami_platform.domain.reasons import Reason
from hami_platform.domain.requests import Constraints, PodRequest


@dataclass(frozen=True, slots=True)
class Strategy:
    """What a vendor does differently; the defaults are NVIDIA's.

    standing: tests of a device that no other share can change. choose: positions of `count` of the candidates (in order
    of preference), or None where no choice will do; without it the first that fit are taken.
    """

    standing: Callable[[DeviceState, Constraints], Reason | None] = conditions.standing
    choose: Callable[[int, Sequence[DeviceState], PairScores], tuple[int, ...] | None] | None = None


NVIDIA = Strategy()


@dataclass(frozen=True, slots=True)
class Terms:
    """Everything about a decision that does not depend on the node.

    gate None: quota does not refuse. plain: nothing but amounts and the device's own state can exclude a device.
    """

    constraints: Constraints
    policy: score.DevicePolicy
    gate: gate.Gate | None = None
    whole_is_largest: bool = False
    plain: bool = False
    strategies: Mapping[str, Strategy] = field(default_factory=dict)


def terms_of(
    request: PodRequest,
    defaults: score.Defaults,
    headroom: quota.Headroom,
    strategies: Mapping[str, Strategy] | None = None,
) -> Terms:
    """Read a request's constraints once, for all nodes."""
    policy = score.device_policy(request.constraints, defaults)
    wanted, whole = request.constraints, defaults.whole_card_as_largest_profile
    lists = (wanted.use_models, wanted.nouse_models, wanted.use_uuids, wanted.nouse_uuids, wanted.vgpu_mode)
    plain = not policy.mutex and all(part is None for part in lists)
    return Terms(wanted, policy, gate.gate_of(headroom, request), whole, plain, strategies or {})


def binding_headroom(node: NodeState, terms: Terms) -> quota.Headroom | None:
    """The headroom of the decision, or None where quota cannot refuse on this node."""
    if terms.gate is None:
        return None
    for ranks in node.ranks.values():
        if ranks.mig or not terms.gate.never_refuses(ranks.largest_mib):
            return terms.gate.headroom
    return None
