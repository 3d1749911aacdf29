"""Which vendors a vector is about, and whether this product has them configured.

Vendor words are HAMi's; a section of the device configuration that the product does not declare is another vendor's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hami_platform.domain.vendors.base import DeviceConfig
from scheduler_ext.conformance.vectors import Vector

WORDS = {
    "nvidia": ("NVIDIA",), "cambricon": ("MLU",), "hygon": ("DCU",), "metax": ("Metax-GPU", "Metax-SGPU"),
    "enflame": ("GCU", "Enflame"), "mthreads": ("Mthreads",), "kunlun": ("kunlun", "XPU"), "awsneuron": ("AWSNeuron",),
    "amd": ("AMD",), "vastai": ("Vastai",), "biren": ("Biren",),
}  # fmt: skip
"""Section of the device configuration → the vendor words of HAMi v2.10.0 that it configures; the lists name theirs."""

ENVIRONMENT = {"ASCEND_VISIBLE_DEVICES": "Ascend"}
"""Variables that a vendor's admission writes into every container → how that vendor's words begin."""


def missing(vector: Vector, config: DeviceConfig) -> str:
    """The first vendor (by name) that the vector needs and the configuration lacks; empty where there is none."""
    have = {vendor.word for vendor in config.vendors}
    lacking = known_words(vector) - have
    return min(_named(vector, lacking), default="")


def known_words(vector: Vector) -> set[str]:
    """Every vendor word that HAMi has, with those that the vector's device configuration makes."""
    words = {word for found in WORDS.values() for word in found}
    return words | {word for word in _resources(vector.devices).values() if word not in WORDS}


def handshakes(vector: Vector, config: DeviceConfig) -> set[str]:
    """The handshake annotations of the vendors that register on a node of the vector, or whose health is asked for."""
    texts = set(_strings([vector.nodes, vector.steps]))
    asked = {step["vendor"] for step in vector.steps if step["op"] == "health"}
    return {one.handshake_key for one in config.vendors if one.register_key in texts or one.word in asked}


def _named(vector: Vector, lacking: set[str]) -> set[str]:
    """Those of the lacking vendors that area, steps, objects or results are about."""
    area = vector.area.removeprefix("vendor/").removesuffix("-special").lower()
    found = {word for word in lacking if vector.area.startswith("vendor/") and word.lower().startswith(area)}
    found |= {step["vendor"] for step in vector.steps if step.get("vendor") in lacking}
    owners = _resources(vector.devices)
    keys = {key: word for word in lacking for key in _keys(word)}
    texts = set(_strings([vector.nodes, vector.pods, vector.quotas, vector.steps]))
    for text in texts:
        owner = owners.get(text.removeprefix("limits.").removeprefix("requests."), "")
        found |= lacking.intersection(WORDS.get(owner, (owner,)))
        if text.lower() in keys:
            found.add(keys[text.lower()])
    return found | lacking.intersection(_strings(vector.expected))


def _keys(word: str) -> tuple[str, ...]:
    """A vendor's own annotations of registration and allocation, in lower case."""
    name = word.lower()
    ends = ("devices-allocated", "devices-to-allocate", "allocated", "register")
    return (
        f"hami.io/node-register-{name}",
        f"hami.io/node-{name}-register",
        *(f"hami.io/{name}-{end}" for end in ends),
    )


def _resources(devices: Mapping[str, Any]) -> dict[str, str]:
    """Resource name → section, or vendor word where the section is a list of chips."""
    return {name: word for section, content in devices.items() for word, name in _names(content, section)}


def _names(value: Any, word: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        word = value.get("commonWord") or word
        for member in value.values():
            yield from _names(member, word)
    elif isinstance(value, list):
        for member in value:
            yield from _names(member, word)
    elif isinstance(value, str) and "/" in value:
        yield word, value


def _strings(value: Any) -> Iterator[str]:
    """Every key and text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, member in value.items():
            yield key
            yield from _strings(member)
    elif isinstance(value, (list, tuple)):
        for member in value:
            yield from _strings(member)
