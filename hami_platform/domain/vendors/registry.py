"""All vendors that can be configured, and the configuration made of them. The only list of vendor modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hami_platform.domain import errors
from hami_platform.domain.vendors import (
    amd,
    ascend,
    awsneuron,
    base,
    biren,
    cambricon,
    enflame,
    hygon,
    iluvatar,
    kunlun,
    metax,
    mthreads,
    nvidia,
    vastai,
)

Declare = Callable[[Any], Sequence[base.Vendor]]

DECLARATIONS: Mapping[str, Declare] = {
    nvidia.CONFIG_KEY: nvidia.declare_all,
    cambricon.CONFIG_KEY: cambricon.declare_all,
    hygon.CONFIG_KEY: hygon.declare_all,
    mthreads.CONFIG_KEY: mthreads.declare_all,
    amd.CONFIG_KEY: amd.declare_all,
    vastai.CONFIG_KEY: vastai.declare_all,
    biren.CONFIG_KEY: biren.declare_all,
    iluvatar.CONFIG_KEY: iluvatar.declare_all,
    metax.CONFIG_KEY: metax.declare_all,
    kunlun.CONFIG_KEY: kunlun.declare_all,
    enflame.CONFIG_KEY: enflame.declare_all,
    awsneuron.CONFIG_KEY: awsneuron.declare_all,
    ascend.CONFIG_KEY: ascend.declare_all,
}
"""Section of the device configuration -> the vendors declared by it. None for the section: the chart's defaults."""


def all_vendors() -> tuple[base.Vendor, ...]:
    """Every vendor with the chart's defaults, sorted by word."""
    return default_config().vendors


def default_config() -> base.DeviceConfig:
    """Every vendor with the chart's defaults: what runs without a configuration file."""
    return _config([vendor for declare in DECLARATIONS.values() for vendor in declare(None)])


def device_config(raw: Mapping[str, Any]) -> base.DeviceConfig:
    """The configuration of a parsed device-config file (HAMi's keys). Absent, null and unknown sections are off.

    Raises ConfigError naming the key; also when no section is left, since then no pod would ever be ours.
    """
    present = [(declare, raw[name]) for name, declare in DECLARATIONS.items() if raw.get(name) is not None]
    if not present:
        raise errors.ConfigError(f"no device is configured: none of {', '.join(sorted(DECLARATIONS))}")
    return _config([vendor for declare, section in present for vendor in declare(section)])


def _config(vendors: Sequence[base.Vendor]) -> base.DeviceConfig:
    return base.DeviceConfig(tuple(sorted(vendors, key=lambda vendor: vendor.word)))
