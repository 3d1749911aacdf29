"""One container of a pod as declared, and what a vendor's admission may add to it. Must not know: any one vendor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hami_platform.domain import devices, units

Amounts = Mapping[str, units.Text]


@dataclass(frozen=True, slots=True)
class Declared:
    """One container as declared. path: its JSON pointer in the pod. raw is the object itself, never changed."""

    name: str
    kind: devices.ContainerKind
    path: str
    limits: Amounts
    requests: Amounts
    raw: Mapping[str, Any]

    def amount(self, resource: str) -> units.Text | None:
        """The limit if there is one, else the request; None where neither is given or the resource has no name."""
        if not resource:
            return None
        return self.limits[resource] if resource in self.limits else self.requests.get(resource)


@dataclass(frozen=True, slots=True)
class Additions:
    """What makes a request complete: members of limits and requests, environment, annotations of the pod."""

    limits: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def __or__(self, other: Additions) -> Additions:
        return Additions(
            {**self.limits, **other.limits},
            {**self.requests, **other.requests},
            {**self.env, **other.env},
            {**self.annotations, **other.annotations},
        )
