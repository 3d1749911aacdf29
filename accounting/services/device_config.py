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
    return _read(env.current().device_config_file)[0]


def source() -> str:
    """The text that `device_config` was read from; empty: the defaults."""
    return _read(env.current().device_config_file)[1]


@functools.lru_cache(maxsize=8)
def of_text(text: str) -> DeviceConfig:
    """What a text that `source` gave means; of the empty one, the defaults."""
    return registry.device_config(yaml.safe_load(text) or {}) if text else registry.default_config()


@functools.lru_cache(maxsize=8)
def _read(file: str) -> tuple[DeviceConfig, str]:
    if not file:
        return registry.default_config(), ""
    try:
        text = pathlib.Path(file).read_text(encoding="utf-8")
        loaded: Any = yaml.safe_load(text)
    except (OSError, yaml.YAMLError) as fault:
        raise ConfigError(f"HAMI_DEVICE_CONFIG_FILE {file}: {fault}") from fault
    return registry.device_config(loaded or {}), text or "{}"
