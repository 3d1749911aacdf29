"""Who may allocate on a node: annotation `hami.io/mutex.lock`, `<RFC 3339>,<namespace>,<pod>`.

Older writers wrote only the time. Must not know: whether a lock still holds (that is `locks`). Source: HAMi v2.10.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from hami_platform.domain import errors

KEY = "hami.io/mutex.lock"

_RFC3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})")


@dataclass(frozen=True, slots=True)
class NodeLock:
    """A lock as written. at_s: unix seconds by the writer's clock, for people; ages count from our own first sight.

    Without an owner (older writers) namespace and name are empty.
    """

    at_s: int
    namespace: str = ""
    name: str = ""

    @property
    def owned(self) -> bool:
        """Whether the lock says whose it is."""
        return bool(self.name)

    def owned_by(self, namespace: str, name: str) -> bool:
        """Whether it is this pod's: whole names are compared, never a part of one."""
        return self.owned and (self.namespace, self.name) == (namespace, name)


def encode(lock: NodeLock) -> str:
    """The value, in UTC. Raises WireError for a name with a comma in it or a time that is not in years 1 to 9999."""
    if "," in lock.namespace + lock.name:
        raise errors.WireError("a comma in the name of the owner")
    try:
        stamp = datetime.fromtimestamp(lock.at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)
    except (ValueError, OverflowError, OSError) as error:
        raise errors.WireError(f"{lock.at_s} is no time", field="time") from error
    return f"{stamp},{lock.namespace},{lock.name}" if lock.namespace or lock.name else stamp


def decode(text: str) -> NodeLock:
    """The lock. Raises WireError unless it has one or three parts and begins with an RFC 3339 time."""
    parts = text.split(",")
    if len(parts) not in (1, 3):
        raise errors.WireError(f"1 or 3 parts are expected, found {len(parts)}")
    return NodeLock(_unix(parts[0]), *parts[1:])


def _unix(text: str) -> int:
    if _RFC3339.fullmatch(text) is None:
        raise errors.WireError(f"{text[:40]!r} is not an RFC 3339 time", field="time")
    # Fractions of a second are cut off; Python 3.11 reads at most six digits of them in every form.
    whole = re.sub(r"\.[0-9]+", "", text)
    try:
        return int(datetime.fromisoformat(whole).timestamp())
    except (ValueError, OverflowError) as error:
        raise errors.WireError(f"{text[:40]!r} is no time: {error}", field="time") from error
