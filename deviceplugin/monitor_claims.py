"""Which of a region's claims are believed. Pure; a container can write anything into its region.

What it says of cards that it has no part of, and more than a card has, is dropped, so that nobody can spoil another's
figures or a card's sum. Its priority is what its pod declares: a region could otherwise stop the neighbours' kernels.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deviceplugin import feedback, region
from deviceplugin.monitor_pods import Entitlement

FOREIGN = "foreign_device"
REPEATED = "repeated_device"
IMPLAUSIBLE = "implausible"
LIMIT = "limit_changed"
PRIORITY = "priority_changed"
TORN = "torn"
UNNAMED = "unreadable_uuid"


@dataclass(frozen=True, slots=True)
class Believed:
    """What is left of a region, and the words for what is not.

    limits_bytes: what the limits should be that are not, by the device's index in the region.
    """

    devices: tuple[region.DeviceUse, ...]
    member: feedback.Member
    problems: frozenset[str]
    limits_bytes: Mapping[int, int]


def believe(found: region.Region, due: Entitlement, memory_bytes: Mapping[str, int]) -> Believed:
    """Hold a region against what its container is entitled to.

    memory_bytes: most that a card's processes can have, of the cards that are here; empty while none is known.
    """
    problems = set(_problems(found, due))
    kept: list[region.DeviceUse] = []
    limits: dict[int, int] = {}
    for device in found.devices:
        problem = _problem(device, found, due, memory_bytes, {one.uuid for one in kept})
        if problem:
            problems.add(problem)
        if problem in ("", LIMIT):
            kept.append(device)
        if problem == LIMIT:
            limits[device.index] = due.limits_bytes[device.uuid]
    member = feedback.Member(tuple(one.uuid for one in kept), due.priority, found.words, found.last_kernel_s)
    return Believed(tuple(dataclasses.replace(one) for one in kept), member, frozenset(problems), limits)


def _problems(found: region.Region, due: Entitlement) -> Iterator[str]:
    if found.torn:
        yield TORN
    if found.unreadable_uuids:
        yield UNNAMED
    if found.priority != due.priority:
        yield PRIORITY


def _problem(
    device: region.DeviceUse, found: region.Region, due: Entitlement, memory_bytes: Mapping[str, int], seen: set[str]
) -> str:
    if device.uuid in seen:
        return REPEATED
    if device.uuid not in due.cards or (memory_bytes and device.uuid not in memory_bytes):
        return FOREIGN
    most = memory_bytes.get(device.uuid, sys.maxsize)
    parts = (device.total_bytes, device.context_bytes, device.module_bytes, device.data_bytes)
    if max(parts) > most or device.core_percent > 100 * max(1, found.processes):
        return IMPLAUSIBLE
    if device.limit_bytes != due.limits_bytes.get(device.uuid, device.limit_bytes):
        return LIMIT
    return ""
