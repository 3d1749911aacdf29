"""How a table of settings is declared and read: variables, their files, other names, unknown names.

Knows no Django and no particular setting: the table is in `env`.
"""

from __future__ import annotations

import dataclasses
import difflib
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

PREFIX: Final = "HAMI_"

# A Service named hami-… makes the kubelet put its address into every pod of the namespace under such names.
# Source: Kubernetes docs, "Discovering services", environment variables.
_SERVICE_LINK: Final = re.compile(r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")

T = TypeVar("T")


class BadSettingsError(Exception):
    """The operator's mistake: what is wrong, one line per setting, each naming it."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. `name` is the attribute, `variable` the environment variable."""

    name: str
    variable: str
    read: Callable[[str], Any]
    default: str
    help: str
    group: str
    also: tuple[str, ...]
    flags: tuple[str, ...]
    secret: bool


def row(
    read: Callable[[str], T],
    default: str,
    help: str,  # noqa: A002 - it is the word for this
    *,
    variable: str = "",
    also: tuple[str, ...] = (),
    flags: tuple[str, ...] = (),
    secret: bool = False,
) -> T:
    """Declare one setting; its type is what `read` returns."""
    row = {"read": read, "default": default, "help": help, "variable": variable}
    metadata = {**row, "also": also, "flags": flags, "secret": secret}
    declared: T = dataclasses.field(default=read(default), metadata=metadata, repr=not secret)
    return declared


def table_of(declared: type[Any], groups: Mapping[str, str]) -> tuple[Setting, ...]:
    """The rows of a settings class, in the order of the groups. `groups` names the first row of each."""
    rows = []
    group = ""
    for item in dataclasses.fields(declared):
        group = groups.get(item.name, group)
        meta = item.metadata
        variable = PREFIX + (meta["variable"] or item.name.upper())
        row = {key: meta[key] for key in ("read", "default", "help", "also", "flags", "secret")}
        rows.append(Setting(name=item.name, variable=variable, group=group, **row))
    order = list(groups.values())
    return tuple(sorted(rows, key=lambda row: order.index(row.group)))


def read(table: Sequence[Setting], environ: Mapping[str, str]) -> dict[str, Any]:
    """The values that the environment sets, by row name. Raises BadSettingsError with every problem at once."""
    problems = [*_unknown(table, environ)]
    found: dict[str, Any] = {}
    for setting in table:
        try:
            text = _raw(setting, environ)
            if text is not None:
                found[setting.name] = setting.read(text)
        except ValueError as error:
            problems.append(f"{setting.variable}: {error}")
    if problems:
        raise BadSettingsError(problems)
    return found


def source(setting: Setting, environ: Mapping[str, str]) -> str:
    """The variable that sets it; empty: its default holds."""
    file = f"{setting.variable}_FILE"
    if setting.secret and file in environ:
        return file
    return next((name for name in (setting.variable, *setting.also) if name in environ), "")


def _raw(setting: Setting, environ: Mapping[str, str]) -> str | None:
    """The text of a setting, from its variable, its file, or another name; None: not set."""
    file = f"{setting.variable}_FILE"
    if setting.secret and file in environ:
        if environ.get(setting.variable):
            raise ValueError(f"is set, and so is {file}: set one of them")
        try:
            return pathlib.Path(environ[file]).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"cannot read the file that {file} names: {error}") from error
    return next((environ[name] for name in (setting.variable, *setting.also) if name in environ), None)


def _unknown(table: Sequence[Setting], environ: Mapping[str, str]) -> Iterator[str]:
    known = {name for row in table for name in (row.variable, *row.also)}
    known |= {f"{row.variable}_FILE" for row in table if row.secret}
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in known or _is_service_link(name, environ[name]):
            continue
        close = difflib.get_close_matches(name, known, n=1)
        yield f"{name}: no such setting" + (f"; did you mean {close[0]}?" if close else "")


def _is_service_link(name: str, value: str) -> bool:
    return bool(_SERVICE_LINK.fullmatch(name)) or (name.endswith("_PORT") and "://" in value)
