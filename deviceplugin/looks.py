"""What the agent says of its own health at `/livez`, `/startupz` and `/readyz` of its metrics listener.

Ready means that a pod that comes now would get its devices. Must not know: how parts do their work, or who asks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from deviceplugin import board, health, loops
from hami_platform import health as addresses

QUIET_S: Final = 60.0
"""Without a round of the monitor, which makes one every few seconds, it is stuck."""


class Registered(Protocol):
    """The plugins as the kubelet knows them."""

    def unregistered(self) -> list[str]:
        """Resources that the running kubelet does not know."""
        ...


class Beating(Protocol):
    """What renews the agent's lease."""

    @property
    def failure(self) -> str:
        """Why the last renewal failed; empty: it did not."""
        ...


def register(shown: board.Board, links: Registered, running: Sequence[loops.Loop], beating: Beating | None) -> None:
    """Answer with these from now on. beating None: no lease is renewed, as in HAMi mode."""
    addresses.register("loops", lambda: parts(running), addresses.LIVE, addresses.STARTED)
    addresses.register("cards", lambda: cards(shown), addresses.READY)
    addresses.register("kubelet", lambda: kubelet(links), addresses.READY)
    if beating is not None:
        addresses.register("api-server", lambda: beating.failure or addresses.OK, addresses.READY)


def register_others(found: Mapping[str, addresses.Look]) -> None:
    """What is only shown: pods get their devices without it."""
    for name, look in found.items():
        addresses.register(name, look)


def parts(running: Sequence[loops.Loop]) -> str:
    """Whether each part still runs. One that ended by a fault ends the agent, so this fails for a moment at most."""
    ended = [one.name for one in running if not one.is_alive()]
    return f"not running: {', '.join(ended)}" if ended else addresses.OK


def cards(shown: board.Board) -> str:
    """Whether the driver answers. Cards that are ill are no fault of the agent's: they are registered as such."""
    found = shown.picture.cards
    if not found:
        return "the node has no card"
    return health.UNREADABLE if all(one.ailment == health.UNREADABLE for one in found) else addresses.OK


def kubelet(links: Registered) -> str:
    """Whether the running kubelet knows every resource."""
    unknown = links.unregistered()
    return f"not registered with the kubelet: {', '.join(unknown)}" if unknown else addresses.OK


def measured(at_s: Callable[[], float], now_s: Callable[[], float] = time.time) -> str:
    """Whether the monitor makes its rounds."""
    age_s = now_s() - at_s()
    return addresses.OK if age_s < QUIET_S else f"the monitor has made no round for {QUIET_S:.0f} s or more"
