"""Which MIG profiles a node offers: HAMi's `migProfileAllowlist`, by model.

Must not know: NVML, or where the list is written. Source: HAMi v2.10.0, device plugin configuration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SLICES = re.compile(r"([0-9]+)g\.")


@dataclass(frozen=True, slots=True)
class Rule:
    """Cards whose model contains one of `models` offer profiles of these numbers of slices."""

    models: tuple[str, ...]
    slices: frozenset[int]


@dataclass(frozen=True, slots=True)
class Allowed:
    """The list. Without rules every profile of the card is offered."""

    rules: tuple[Rule, ...] = ()

    def of(self, model: str) -> frozenset[int] | None:
        """Numbers of slices that are offered; None: all. The first rule that matches counts; without one, none are."""
        if not self.rules:
            return None
        return next((rule.slices for rule in self.rules if any(one in model for one in rule.models)), frozenset())


def slices(profile: str) -> int:
    """`3g.20gb` -> 3. The memory in a name is rounded differently by different drivers, so it does not count.

    Raises ValueError.
    """
    if not (found := _SLICES.match(profile)):
        raise ValueError(f"has the profile {profile!r}, which is not <slices>g.<memory>")
    return int(found[1])


ALL = Allowed()
