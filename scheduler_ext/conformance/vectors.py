"""Vector files: read, checked for their shape, and their times filled in. Must not know: what a step does."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

Json = dict[str, Any]
Step = Mapping[str, Any]
Result = Any

DEFAULT_DEVICES = "chart"
CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "conformance" / "configs"
"""Where a configuration is looked for that a lone file of vectors names."""
_FILLED = re.compile(r"\$\{(local|rfc3339|unix):(-?\d+)s\}")


class BadVector(ValueError):
    """A file is not of the schema; the text names file and vector."""


@dataclass(frozen=True, slots=True)
class Vector:
    """One vector. devices: the device configuration that it names, parsed. flags: HAMi's; absent: its defaults.

    expected: one result per step. alternatives: other outcomes that HAMi was seen to give. corrected: the outcome with
    known faults repaired, None where there is none. fault: the known faults that the outcome shows.
    """

    id: str
    area: str
    title: str
    devices: Mapping[str, Any]
    flags: Mapping[str, Any]
    nodes: Sequence[Json]
    pods: Sequence[Json]
    quotas: Sequence[Json]
    register: bool
    steps: Sequence[Json]
    expected: Sequence[Result]
    alternatives: Sequence[Sequence[Result]] = ()
    corrected: Sequence[Result] | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class File:
    """The vectors of one file, in its order."""

    path: pathlib.Path
    vectors: Sequence[Vector] = field(repr=False)


def files_of(paths: Sequence[str]) -> Iterator[File]:
    """Every vector file named, or directly in a folder named. Raises BadVector, OSError."""
    for name in paths:
        path = pathlib.Path(name)
        found = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not found:
            raise BadVector(f"{path}: there is no .json file in this folder")
        for one in found:
            yield load(one)


def load(path: pathlib.Path) -> File:
    """The vectors of a file. Raises BadVector, OSError."""
    content = _json(path)
    raw = content.get("vectors") if isinstance(content, dict) else None
    if not isinstance(raw, list):
        raise BadVector(f"{path}: `vectors` must be a list")
    configs: dict[str, Mapping[str, Any]] = {}
    return File(path, [_vector(path, place, one, configs) for place, one in enumerate(raw)])


def _vector(path: pathlib.Path, place: int, raw: Any, configs: dict[str, Mapping[str, Any]]) -> Vector:
    where = f"{path}: vector {raw.get('id', place) if isinstance(raw, dict) else place}"
    try:
        config = raw.get("config") or {}
        devices = config.get("devices") or DEFAULT_DEVICES
        if devices not in configs:
            configs[devices] = _json(_config_file(path, devices))
        vector = Vector(
            id=raw["id"], area=raw.get("area", ""), title=raw.get("title", ""), devices=configs[devices],
            flags=config.get("flags") or {}, nodes=raw.get("nodes") or (), pods=raw.get("pods") or (),
            quotas=raw.get("quotas") or (), register=not raw.get("noRegister"), steps=raw["new"],
            expected=raw["expect"]["steps"],
            alternatives=[one["steps"] for one in raw["expect"].get("alternatives") or ()],
            corrected=(raw.get("corrected") or {}).get("steps"), fault=raw.get("fault") or "",
        )  # fmt: skip
    except (KeyError, TypeError, AttributeError) as error:
        raise BadVector(f"{where}: {type(error).__name__} {error}") from error
    if len(vector.steps) != len(vector.expected):
        raise BadVector(f"{where}: {len(vector.steps)} steps and {len(vector.expected)} results")
    return vector


def _config_file(path: pathlib.Path, name: str) -> pathlib.Path:
    """The device configuration of this name: beside the vectors, else the repository's own. Raises BadVector."""
    for folder in (path.parent / "configs", path.parent.parent / "configs", CONFIGS):
        file = folder / f"{name}.json"
        if file.is_file():
            return file
    raise BadVector(f"{path}: there is no configs/{name}.json beside it")


def _json(path: pathlib.Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadVector(f"{path}: not JSON: {error}") from error


def filled(value: Any, now: datetime) -> Any:
    """The same JSON with `${local:-120s}`, `${rfc3339:…}` and `${unix:…}` replaced by the time so long from now."""
    if isinstance(value, str):
        return _FILLED.sub(lambda found: _time(found[1], now + timedelta(seconds=int(found[2]))), value)
    if isinstance(value, Mapping):
        return {key: filled(member, now) for key, member in value.items()}
    if isinstance(value, list):
        return [filled(member, now) for member in value]
    return value


def _time(form: str, at: datetime) -> str:
    if form == "unix":
        return str(int(at.timestamp()))
    if form == "rfc3339":
        return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
