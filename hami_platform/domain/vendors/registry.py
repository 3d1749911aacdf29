"""All vendors that can be configured, and the configuration made of them. The only list of vendor modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hami_platform.domain import errors
from hami_platform.domain.vendors import base, nvidia

DECLARATIONS: Mapping[str, Callable[[Mapping[str, Any]], base.Vendor]] = {nvidia.CONFIG_KEY: nvidia.declare}
"""Section of the device configuration -> the vendor declared by it."""


def all_vendors() -> tuple[base.Vendor, ...]:
    """Every vendor with the chart's defaults, sorted by word."""
    return default_config().vendors


def default_config() -> base.DeviceConfig:
    """Every vendor with the chart's defaults: what runs without a configuration file."""
    return device_config({section: {} for section in DECLARATIONS})


def device_config(raw: Mapping[str, Any]) -> base.DeviceConfig:
    """The configuration of a parsed device-config file (HAMi's keys). Absent, null and unknown sections are off.

    Raises ConfigError naming the key; also when no section is left, since then no pod would ever be ours.
    """
    found = [declare(_section(raw, name)) for name, declare in DECLARATIONS.items() if raw.get(name) is not None]
    if not found:
        raise errors.ConfigError(f"no device is configured: none of {', '.join(sorted(DECLARATIONS))}")
    return base.DeviceConfig(tuple(sorted(found, key=lambda vendor: vendor.word)))


def _section(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = raw[name]
    if not isinstance(section, Mapping):
        raise errors.ConfigError(f"{name}: a mapping is expected")
    return section
