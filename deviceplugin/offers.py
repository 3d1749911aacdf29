"""What a node advertises to the kubelet, under which resource names, for each way to treat MIG instances.

With the strategy `none` cards are advertised as shares. An operator's own instances are advertised as they are:
`single` under the node's one resource, `mixed` under a resource for each profile. Then the kubelet alone accounts for
them. Must not know: gRPC, pods. Source of the strategies and names: NVIDIA's k8s-device-plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deviceplugin import inventory, kubelet, register
from hami_platform import logs

NONE, SINGLE, MIXED = "none", "single", "mixed"

log = logs.get(__name__)


def shared(scaling: register.Scaling, *, numa: bool, strategy: str) -> kubelet.Offer:
    """Shares of cards; with `mixed` only of those that are not in MIG mode."""

    def offer(cards: Sequence[inventory.Card]) -> Sequence[register.Share]:
        chosen = [card for card in cards if strategy != MIXED or card.mode != inventory.MIG]
        return register.shares(chosen, scaling, numa=numa)

    return offer


def of_profile(profile: str) -> kubelet.Offer:
    """All instances of one profile."""

    def offer(cards: Sequence[inventory.Card]) -> Sequence[register.Share]:
        return _instances(cards, profile)

    return offer


class Uniform:
    """All instances of a node on which there is nothing else; nothing, with an error in the log, where there is."""

    def __init__(self) -> None:
        self._complaint = ""

    def __call__(self, cards: Sequence[inventory.Card]) -> Sequence[register.Share]:
        """See kubelet.Offer."""
        complaint = _not_uniform(cards)
        if complaint and complaint != self._complaint:
            log.error("nothing_offered", reason=complaint)
        self._complaint = complaint
        return () if complaint else _instances(cards, *profiles(cards))


def profiles(cards: Iterable[inventory.Card]) -> tuple[str, ...]:
    """The profiles of which there are instances, sorted."""
    return tuple(sorted({one.profile for card in cards for one in card.partitions}))


def resource_of(profile: str, base: str) -> str:
    """`1g.5gb` -> `nvidia.com/mig-1g.5gb`, in the domain of `base`; a `+` may not be in a resource's name."""
    return f"{base.partition('/')[0]}/mig-{profile.replace('+', '.')}"


def _instances(cards: Sequence[inventory.Card], *wanted: str) -> tuple[register.Share, ...]:
    return tuple(
        register.Share(one.instance.uuid, one.healthy, card.numa)
        for card in cards
        for one in card.partitions
        if one.profile in wanted
    )


def _not_uniform(cards: Sequence[inventory.Card]) -> str:
    if whole := [card.uuid for card in cards if card.mode != inventory.MIG]:
        return f"the strategy is single, and these cards are not in MIG mode: {', '.join(whole)}"
    if len(found := profiles(cards)) > 1:
        return f"the strategy is single, and there are instances of several profiles: {', '.join(found)}"
    return ""
