"""A pod keeps to the devices that its containers before were given. Source: HAMi v2.10.0 (custom filter rule)."""

from __future__ import annotations

from hami_platform.domain import trial
from hami_platform.domain.reasons import Reason
from hami_platform.domain.strategy import Scene


def refuses(t: trial.Trial, scene: Scene) -> Reason | None:
    """A device other than every one that the pod already has."""
    if any(uuid != t.device.uuid for uuid in scene.before):
        return Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE
    return None
