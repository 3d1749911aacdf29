"""Is a vendor's plugin alive: annotations `hami.io/node-handshake…`, and HAMi's rule for reading them.

The scheduler writes `Requesting_<local time>`; any other text is a plugin's answer. Must not know: the clock; the local
time comes in. Source: HAMi v2.10.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from hami_platform.domain import errors

REQUESTING = "Requesting"
TIMEOUT_S = 60
"""A request without an answer for so long counts against the plugin."""

_LAYOUT = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, slots=True)
class Handshake:
    """A value as read. requested_at is local time without zone, None where no time can be read."""

    requesting: bool
    requested_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """healthy: the vendor's devices may stay. stamp: HAMi would write a new request and read the devices again."""

    healthy: bool
    stamp: bool


def encode(requested_at: datetime) -> str:
    """The request. requested_at is local time without zone. Raises WireError for one that has a zone."""
    if requested_at.tzinfo is not None:
        raise errors.WireError("a local time without zone is expected")
    return f"{REQUESTING}_{requested_at.strftime(_LAYOUT).zfill(19)}"


def decode(text: str) -> Handshake:
    """The handshake; every text has a meaning, so nothing is raised."""
    if REQUESTING not in text:
        return Handshake(requesting=False)
    parts = text.split("_")
    return Handshake(requesting=True, requested_at=_time(parts[1]) if len(parts) > 1 else None)


def judge(text: str | None, *, local_now: datetime, allocatable: int) -> Verdict:
    """HAMi's rule: only an old request *and* nothing allocatable takes a vendor's devices out."""
    shake = decode(text or "")
    if not shake.requesting:
        return Verdict(healthy=True, stamp=True)
    at = shake.requested_at
    late = at is not None and local_now - at >= timedelta(seconds=TIMEOUT_S)
    return Verdict(healthy=not late or allocatable > 0, stamp=False)


def _time(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, _LAYOUT)  # noqa: DTZ007 - the format has no zone
    except ValueError:
        return None
