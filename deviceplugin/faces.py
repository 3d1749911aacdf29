"""The plugins that a node runs: one for each resource, over what answers for it.

Must not know: how calls are answered, or how links work.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping

from deviceplugin import board, kubelet, offers, register


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """main: the node's one resource of shares. strategy: of offers. numa: of shares; instances always tell theirs."""

    main: kubelet.Face
    scaling: register.Scaling
    numa: bool = False
    strategy: str = offers.NONE


def links(plan: Plan, shown: board.Board, shares: kubelet.Allocations, instances: kubelet.Allocations) -> kubelet.Links:
    """All of them; with `mixed` more as profiles appear."""

    def made(resource: str, offer: kubelet.Offer, answers: kubelet.Allocations) -> kubelet.Link:
        face = dataclasses.replace(plan.main, resource=resource)
        return kubelet.Link(face, kubelet.Servicer(face, shown, offer, answers))

    def wanted() -> Mapping[str, Callable[[], kubelet.Link]]:
        name = plan.main.resource
        if plan.strategy == offers.SINGLE:
            return {name: functools.partial(made, name, offers.Uniform(), instances)}
        offer = offers.shared(plan.scaling, numa=plan.numa, strategy=plan.strategy)
        found = {name: functools.partial(made, name, offer, shares)}
        for profile in offers.profiles(shown.picture.cards) if plan.strategy == offers.MIXED else ():
            other = offers.resource_of(profile, name)
            found[other] = functools.partial(made, other, offers.of_profile(profile), instances)
        return found

    return kubelet.Links(wanted)
