"""Which vendors a vector is about, and whether this product has them configured.

Vendor words are HAMi's; a section of the device configuration that the product does not declare is another vendor's.
"""

from __future__ import annotations

import re
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

_KEY = re.compile(r"^hami\.io/")


def missing(vector: Vector, config: DeviceConfig) -> str:
    """The first vendor (by name) that the vector needs and the configuration lacks; empty where there is none."""
    have = {vendor.word for vendor in config.vendors}
    lacking = known_words(vector) - have
    return next((word for word in sorted(lacking) if word in _named(vector, lacking)), "")


def known_words(vector: Vector) -> set[str]:
    """Every vendor word that HAMi has, with those that the vector's device configuration makes."""
    words = {word for found in WORDS.values() for word in found}
    return words | {word for word in _resources(vector.devices).values() if word not in WORDS}


def _named(vector: Vector, lacking: set[str]) -> set[str]:
    """Those of the lacking vendors that area, steps, objects or results are about."""
    area = vector.area.removeprefix("vendor/").removesuffix("-special")
    found = {word for word in lacking if vector.area.startswith("vendor/") and word.lower().startswith(area.lower())}
    found |= {step["vendor"] for step in vector.steps if step.get("vendor") in lacking}
    owners = _resources(vector.devices)
    for text in _strings([*vector.nodes, *vector.pods, *vector.quotas, *vector.steps]):
        owner = owners.get(text.removeprefix("limits.").removeprefix("requests."), "")
        found |= {word for word in WORDS.get(owner, (owner,)) if word in lacking}
        if _KEY.match(text):
            found |= {word for word in lacking if _of_key(text, word)}
    return found | {key for key in _strings(vector.expected) if key in lacking}


def _of_key(key: str, word: str) -> bool:
    """Whether an annotation is a vendor's own registration or allocation."""
    name = key.removeprefix("hami.io/").lower()
    return name in {
        f"{word.lower()}-devices-allocated", f"{word.lower()}-devices-to-allocate", f"{word.lower()}-allocated",
        f"node-register-{word.lower()}", f"node-{word.lower()}-register",
    }  # fmt: skip


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
