"""Reads one section of the device configuration, naming the key in every error. Must not know: any one vendor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hami_platform.domain import errors, units


def section(name: str, values: Any) -> Section:
    """A section as it was read; None: all defaults. Raises ConfigError for what is no mapping."""
    if values is None:
        return Section(name, {})
    if not isinstance(values, Mapping):
        raise errors.ConfigError(f"{name}: a mapping is expected")
    return Section(name, values)


def entries(name: str, values: Any) -> list[Section]:
    """The sections of a list, each named by its place. Raises ConfigError."""
    if not isinstance(values, list):
        raise errors.ConfigError(f"{name}: a list is expected")
    return [section(f"{name}[{i}]", value) for i, value in enumerate(values)]


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping of the configuration file. Absent keys take the default given; unknown keys are nobody's business."""

    name: str
    values: Mapping[str, Any]

    def text(self, key: str, default: str = "") -> str:
        """A text. Raises ConfigError."""
        return str(self._read(key, str, default, "a text"))

    def flag(self, key: str, default: bool = False) -> bool:
        """A bool; the chart writes some of them as text. Raises ConfigError."""
        found = self.values.get(key, default)
        if isinstance(found, str) and found.lower() in ("true", "false"):
            return found.lower() == "true"
        return bool(self._read(key, bool, default, "true or false"))

    def number(self, key: str, default: int, *, least: int = 0, most: int = units.INT32_MAX) -> int:
        """An integer in bounds. Raises ConfigError."""
        found = self.values.get(key, default)
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
            raise errors.ConfigError(f"{self.name}.{key}: {found!r} is not an integer from {least} to {most}")
        return found

    def word(self, key: str, default: str, allowed: tuple[str, ...]) -> str:
        """One of some words. Raises ConfigError."""
        found = self.text(key, default)
        if found not in allowed:
            raise errors.ConfigError(f"{self.name}.{key}: {found!r} is none of {', '.join(allowed)}")
        return found

    def required(self, key: str, default: str) -> str:
        """A text that must not be empty. Raises ConfigError."""
        found = self.text(key, default)
        if not found:
            raise errors.ConfigError(f"{self.name}.{key}: must not be empty")
        return found

    def _read(self, key: str, kind: type, default: Any, expected: str) -> Any:
        found = self.values.get(key, default)
        if not isinstance(found, kind):
            raise errors.ConfigError(f"{self.name}.{key}: {found!r} is not {expected}")
        return found
