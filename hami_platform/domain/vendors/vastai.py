"""Vastai, declared. Names, defaults and meanings: HAMi v2.10.0, device-config.yaml, section `vastai`.

A card may register its dies as devices of their own (`DeviceStrategy` = `die`); `AIC` then names the card.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hami_platform.domain import trial
from hami_platform.domain.devices import Device
from hami_platform.domain.nodes import DeviceState, PairScores
from hami_platform.domain.reasons import Reason
from hami_platform.domain.strategy import Outcome, Scene
from hami_platform.domain.vendors import base, section
from hami_platform.domain.vendors.strategies import groups, slots

WORD = "Vastai"
CONFIG_KEY = "vastai"

CARD = "AIC"
KIND = "DeviceStrategy"
DIE = "die"


def declare_all(values: Any) -> tuple[base.Vendor, ...]:
    """The vendor of the configuration's section. Raises ConfigError."""
    config = section.section(CONFIG_KEY, values)
    vendor = base.Vendor(
        word=WORD,
        resources=base.Resources(count=config.text("resourceCountName", "vastaitech.com/va")),
        allocated_key="hami.io/Vastai-devices-allocated",
        to_allocate_key="hami.io/Vastai-devices-to-allocate",
        register_key="hami.io/node-va-register",
        handshake_key="hami.io/node-handshake-va",
        defaults=base.Defaults(count=0, whole=False, spelled_percent=100),
        selection=base.Selection(use_uuids="vastaitech.com/use-gpuuuid", nouse_uuids="vastaitech.com/nouse-gpuuuid"),
        registered_cores=100,
        strategy=replace(slots.SLOTS, refuses=_refuses, choose=_choose, score=_score),
    )
    return (vendor,)


def _is_die(device: Device) -> bool:
    return device.fact(KIND) == DIE


def _card(device: Device) -> object:
    return device.fact(CARD) or None


def _refuses(t: trial.Trial, scene: Scene) -> Reason | None:
    """With `mutex`, dies of a card that is used at all are not given."""
    if not scene.mutex or not _is_die(t.device) or _card(t.device) is None:
        return None
    siblings = (one for one in scene.trials if _card(one.device) == _card(t.device))
    return Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT if any(one.slots > 0 for one in siblings) else None


def _choose(count: int, states: Sequence[DeviceState], pairs: PairScores) -> tuple[int, ...] | None:
    """Dies come from as few cards as possible; whole cards in the order of preference."""
    del pairs
    if not _is_die(states[0].device) or count == 1 or count == len(states):
        return tuple(range(count))
    return groups.largest_first(count, [_card(one.device) for one in states])


def _score(outcome: Outcome) -> float:
    """How much of each container's dies lie on one card, summed over containers."""
    return groups.together(outcome, lambda device: _card(device) if _is_die(device) else None)
