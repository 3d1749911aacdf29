"""The device configuration of this process: HAMi's device-config.yaml read once, or the defaults of HAMi's chart."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

import yaml

from hami_platform import env
from hami_platform.domain.errors import ConfigError
from hami_platform.domain.vendors import registry
from hami_platform.domain.vendors.base import DeviceConfig


def device_config() -> DeviceConfig:
    """Resource names and defaults of every vendor. Raises domain ConfigError that names file and key."""
    return _read(env.current().device_config_file)


@functools.lru_cache(maxsize=8)
def _read(file: str) -> DeviceConfig:
    if not file:
        return registry.default_config()
    try:
        loaded: Any = yaml.safe_load(pathlib.Path(file).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as fault:
        raise ConfigError(f"HAMI_DEVICE_CONFIG_FILE {file}: {fault}") from fault
    return registry.device_config(loaded or {})
