"""What a process says of its own health, under Kubernetes' names. Knows no app: its parts register what they look at.

`/livez` (and `/healthz`): restarting would not help unless this fails, so nothing beyond the process counts.
`/startupz`: it has started. `/readyz`: everything that it needs to do its work now. `?verbose` itemises all looks, also
those that do not count there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from hami_platform import logs

_log = logs.get(__name__)

OK: Final = "ok"
LIVE, READY, STARTED = "livez", "readyz", "startupz"
PATHS: Final[Mapping[str, str]] = {"/livez": LIVE, "/healthz": LIVE, "/readyz": READY, "/startupz": STARTED}
TEXT, JSON = "text/plain; charset=utf-8", "application/json"

Look = Callable[[], str]
"""OK, or why not, in words that name no secret: whoever reaches the address reads them. It ends within seconds."""


@dataclass(frozen=True, slots=True)
class Item:
    """One look. counts: the addresses that fail with it; empty: it is only shown."""

    look: Look
    counts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look came to, and how long it took."""

    said: str
    took_ms: float


@dataclass(frozen=True, slots=True)
class Answer:
    """Of an address."""

    status: int
    body: bytes
    content_type: str


_items: dict[str, Item] = {}


def register(name: str, look: Look, *counts: str) -> None:
    """Look at this too from now on, in place of an earlier look of that name."""
    _items[name] = Item(look, frozenset(counts))


def answer(asked: str, *, verbose: bool) -> Answer:
    """200 when every look that counts says ok, else 503. asked: LIVE, READY or STARTED.

    A process that has registered none yet is alive, and neither started nor ready.
    """
    items = {name: one for name, one in list(_items.items()) if verbose or asked in one.counts}
    seen = {name: _seen(name, one.look) for name, one in items.items()}
    counted = [one.said for name, one in seen.items() if asked in items[name].counts]
    well = all(said == OK for said in counted) and (bool(counted) or asked == LIVE)
    status = 200 if well else 503
    if verbose:
        lines = [_line(name, one, counts=asked in items[name].counts) for name, one in seen.items()]
        return Answer(status, "\n".join([*lines, _verdict(asked, well=well), ""]).encode(), TEXT)
    if asked == READY:
        said = {name: one.said for name, one in seen.items()}
        return Answer(status, json.dumps({"ready": well, "items": said}).encode(), JSON)
    return Answer(status, b"" if well else _verdict(asked, well=False).encode(), TEXT)


def _seen(name: str, look: Look) -> Seen:
    """A look that breaks has found something, too, and must not hide the others."""
    began = time.monotonic()
    try:
        said = look()
    except Exception as fault:  # noqa: BLE001
        _log.exception("health_look_failed", of=name)
        said = f"the look itself failed: {type(fault).__name__}"
    return Seen(said, (time.monotonic() - began) * 1000)


def _line(name: str, one: Seen, *, counts: bool) -> str:
    """As Kubernetes prints its own: `[+]` well, `[-]` not; ours adds `[ ]` for what does not count here."""
    sign = "[+]" if one.said == OK else "[-]" if counts else "[ ]"
    said = OK if one.said == OK else f"failed: {' '.join(one.said.split())}"
    return f"{sign}{name} {said} ({one.took_ms:.1f} ms{'' if counts else ', does not count here'})"


def _verdict(asked: str, *, well: bool) -> str:
    return f"{asked} check {'passed' if well else 'failed'}"
