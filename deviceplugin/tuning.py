"""How this node's cards are cut and shown: our settings, then HAMi's two configuration files over them.

Both files are HAMi's: the `nvidia` section of device-config.yaml for all nodes, and `nodeconfig` of config.json for
one. A key that is there counts, as in HAMi. Pure: text comes in. Must not know: where the files are.
Source of keys and meanings: HAMi v2.10.0, device plugin configuration.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from deviceplugin import mig_profiles
from hami_platform.domain.errors import ConfigError
from hami_platform.domain.vendors import nvidia


@dataclass(frozen=True, slots=True)
class Tuning:
    """memory_mib: of cards whose memory the driver does not tell. prefer None: as the mode has it."""

    resource: str = "nvidia.com/gpu"
    slots: int = 10
    memory_scaling: float = 1.0
    core_scaling: float = 1.0
    memory_mib: int = 0
    log_level: str = "1"
    numa: bool = False
    disable_core_limit: bool = False
    prefer: bool | None = None
    left_out: frozenset[str | int] = frozenset()
    """Uuids and indexes of cards that the agent is to leave alone."""
    profiles: mig_profiles.Allowed = mig_profiles.ALL
    owns_mig: bool = False
    """The node's cards are to be in MIG mode, and no instance on them is anybody else's."""


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("is not a whole number")
    return value


def _slots(value: Any) -> int:
    if _whole(value) == 0:
        raise ValueError("must be at least 1")
    return int(value)


def _positive(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        raise ValueError("is not a number above 0")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise ValueError("is not a text")
    return str(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("is not true or false")
    return value


def _cards(value: Any) -> frozenset[str | int]:
    """`{"uuid": […], "index": […]}`; an index may be written as text, and one that is none filters nothing."""
    if not isinstance(value, dict):
        raise ValueError("is not an object with uuid and index")
    lists = [value.get("uuid") or [], value.get("index") or []]
    if not all(isinstance(one, list) for one in lists):
        raise ValueError("uuid and index are not lists")
    indexes = (int(one) for one in lists[1] if str(one).isdecimal())
    return frozenset((*map(str, lists[0]), *indexes))


def _allowed(value: Any) -> mig_profiles.Allowed:
    """`[{"models": […], "profiles": ["1g.5gb", …]}]`; the first entry whose model matches a card counts."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ValueError("is not a list of objects with models and profiles")
    rules = []
    for one in value:
        lists = [one.get("models"), one.get("profiles")]
        if not all(isinstance(words, list) and all(isinstance(word, str) for word in words) for words in lists):
            raise ValueError("has an entry whose models or profiles are not a list of texts")
        sizes = frozenset(mig_profiles.slices(profile) for profile in one["profiles"])
        rules.append(mig_profiles.Rule(tuple(one["models"]), sizes))
    return mig_profiles.Allowed(tuple(rules))


def _owns(value: Any) -> bool:
    """HAMi's words for how a node's cards are shared; the empty one is HAMi's for "as usual"."""
    if value not in ("hami-core", "mig", ""):
        raise ValueError("is not hami-core or mig")
    return bool(value == "mig")


_Reader = tuple[str, Callable[[Any], Any]]

_FOR_ALL: Mapping[str, _Reader] = {
    "resourceCountName": ("resource", _text),
    "deviceSplitCount": ("slots", _slots),
    "deviceMemoryScaling": ("memory_scaling", _positive),
    "deviceCoreScaling": ("core_scaling", _positive),
    "preConfiguredDeviceMemory": ("memory_mib", _whole),
    "libCudaLogLevel": ("log_level", _text),
    "enableNumaTopology": ("numa", _flag),
    "disableCoreLimit": ("disable_core_limit", _flag),
    "migProfileAllowlist": ("profiles", _allowed),
}
_FOR_ONE: Mapping[str, _Reader] = {
    "devicesplitcount": ("slots", _slots),
    "devicememoryscaling": ("memory_scaling", _positive),
    "devicecorescaling": ("core_scaling", _positive),
    "preconfigureddevicememory": ("memory_mib", _whole),
    "libcudaloglevel": ("log_level", _text),
    "enablenumatopology": ("numa", _flag),
    "enablegetpreferredallocation": ("prefer", _flag),
    "filterdevices": ("left_out", _cards),
    "operatingmode": ("owns_mig", _owns),
}


def with_device_config(tuning: Tuning, text: str) -> Tuning:
    """What device-config.yaml says for all nodes. Raises ConfigError naming the key."""
    try:
        found = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {error}") from error
    section = found.get(nvidia.CONFIG_KEY) if isinstance(found, dict) else found
    if not isinstance(section, dict | None):
        raise ConfigError(f"{nvidia.CONFIG_KEY}: is not a section")
    return _changed(tuning, section or {}, _FOR_ALL, nvidia.CONFIG_KEY)


def with_node_config(tuning: Tuning, text: str, node: str) -> Tuning:
    """What config.json says for this node; of several entries the later ones win. Raises ConfigError."""
    try:
        entries = json.loads(text).get("nodeconfig") or []
    except (ValueError, AttributeError) as error:
        raise ConfigError(f"not an object with nodeconfig: {error}") from error
    for position, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise ConfigError(f"nodeconfig[{position}]: is not an object")
        if entry.get("name") == node:
            keys = {key.lower(): value for key, value in entry.items()}
            tuning = _changed(tuning, keys, _FOR_ONE, f"nodeconfig[{position}]")
    return tuning


def _changed(tuning: Tuning, values: Mapping[str, Any], readers: Mapping[str, _Reader], place: str) -> Tuning:
    changes = {}
    for key, (name, read) in readers.items():
        if values.get(key) is None:
            continue
        try:
            changes[name] = read(values[key])
        except ValueError as error:
            raise ConfigError(f"{place}.{key}: {values[key]!r} {error}") from error
    return replace(tuning, **changes)
