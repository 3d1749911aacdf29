"""How well the cards of a node reach each other: one score for each ordered pair, for the scheduler's choice.

Must not know: how the library is loaded, or how scores travel.
Source: HAMi v2.10.0 (weights), NVML API reference (topology levels, NVLink).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deviceplugin import inventory

LEVELS = {0: 60, 10: 50, 20: 40, 30: 30, 40: 20, 50: 10}
"""Level of the common ancestor (same board … across sockets) to score."""

PER_NVLINK = 100
MOST_NVLINKS = 18


def peers(nvml: Any, handles: Mapping[str, Any]) -> dict[str, tuple[inventory.Peer, ...]]:
    """By uuid: the other cards with their scores, sorted. Raises NVMLError.

    A pair whose two sides count other numbers of NVLinks scores 0: one of the two counts is wrong.
    """
    bus = {_text(nvml.nvmlDeviceGetPciInfo(handle).busId).lower(): uuid for uuid, handle in handles.items()}
    links = {uuid: _nvlinks(nvml, handle, bus) for uuid, handle in handles.items()}
    return {
        one: tuple(_peer(nvml, handles, links, one, other) for other in sorted(handles) if other != one)
        for one in handles
    }


def _peer(
    nvml: Any, handles: Mapping[str, Any], links: Mapping[str, Mapping[str, int]], one: str, other: str
) -> inventory.Peer:
    there, back = links[one].get(other, 0), links[other].get(one, 0)
    if there != back:
        return inventory.Peer(other, 0, symmetric=False)
    return inventory.Peer(other, _level(nvml, handles[one], handles[other]) + PER_NVLINK * there)


def _level(nvml: Any, one: Any, other: Any) -> int:
    try:
        return LEVELS.get(int(nvml.nvmlDeviceGetTopologyCommonAncestor(one, other)), 0)
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_NOT_SUPPORTED:
            raise
        return 0


def _nvlinks(nvml: Any, handle: Any, bus: Mapping[str, str]) -> dict[str, int]:
    """How many NVLinks lead straight to which card; links to a switch lead to none."""
    counts: dict[str, int] = {}
    for link in range(MOST_NVLINKS):
        try:
            if not nvml.nvmlDeviceGetNvLinkState(handle, link):
                continue
            remote = _text(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId).lower()
        except nvml.NVMLError as error:
            if error.value not in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_INVALID_ARGUMENT):
                raise
            continue
        if uuid := bus.get(remote):
            counts[uuid] = counts.get(uuid, 0) + 1
    return counts


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
