"""Iluvatar, declared: one vendor for each kind of card. Source: HAMi v2.10.0, device-config.yaml, list `iluvatars`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hami_platform.domain import requests, units
from hami_platform.domain.vendors import base, parse, section
from hami_platform.domain.vendors.container import Additions, Declared

CONFIG_KEY = "iluvatars"
WORDS = ("MR-V100", "MR-V50", "BI-V150", "BI-V100")
"""The kinds of the chart."""

WHOLE = 100
NAME_ENV = "SOL_CONTINER_NAME"
"""Spelled like this by the vendor's runtime."""


def declare_all(values: Any) -> tuple[base.Vendor, ...]:
    """The vendors of the configuration's list. Raises ConfigError."""
    if values is None:
        return tuple(_declare(section.section(CONFIG_KEY, {"commonWord": word})) for word in WORDS)
    return tuple(_declare(config) for config in section.entries(CONFIG_KEY, values))


def _declare(config: section.Section) -> base.Vendor:
    word = config.required("commonWord", "")
    return base.Vendor(
        word=word,
        resources=base.Resources(
            count=config.text("resourceCountName", f"iluvatar.ai/{word}-vgpu"),
            memory=config.text("resourceMemoryName", f"iluvatar.ai/{word}.vMem"),
            cores=config.text("resourceCoreName", f"iluvatar.ai/{word}.vCore"),
        ),
        allocated_key=f"hami.io/{word}-devices-allocated",
        to_allocate_key=f"hami.io/{word}-devices-to-allocate",
        register_key=f"hami.io/node-{word}-register",
        handshake_key=f"hami.io/node-handshake-{word}",
        unit_mib=256,
        defaults=base.Defaults(count=0),
        selection=base.Selection(use_uuids=f"hami.io/use-{word}-uuid", nouse_uuids=f"hami.io/no-use-{word}-uuid"),
        most_cores=units.INT32_MAX,
        rules=_rules,
        read=_read,
    )


def _rules(vendor: base.Vendor, container: Declared, notes: Mapping[str, str]) -> Additions:
    """Several cards are whole cards. The runtime finds the container by its name."""
    del notes
    if vendor.resources.count not in container.limits:
        return Additions()
    count = parse.integer(container, vendor.resources.count, most=units.INT32_MAX)
    limits = {vendor.resources.cores: str(count * WHOLE)} if count > 1 and vendor.resources.cores else {}
    named = any(one.get("name") == NAME_ENV for one in container.raw.get("env") or ())
    return Additions(limits, env={NAME_ENV: container.name} if container.name and not named else {})


def _read(vendor: base.Vendor, container: Declared, notes: Mapping[str, str]) -> requests.DeviceRequest | None:
    """The core resource of several cards names the sum; a request names what is taken of each."""
    del notes
    found = parse.ask(vendor, container)
    return found and replace(found, core_percent=min(found.core_percent, WHOLE))
