"""What was written to the API server, by whom, from its own audit log.

The audit policy of `control_plane` keeps writes to pods, nodes and events, in order, each with the caller's name and
program. Must not know: how many there should be.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

OURS = "hami-platform"
"""How our clients' User-Agent begins; kube-scheduler uses the same account as the extender."""


class Write(NamedTuple):
    """One request that changed, or tried to change, an object. resource: `pods/binding` with its subresource."""

    verb: str
    resource: str
    namespace: str
    name: str
    user: str
    agent: str
    code: int

    @property
    def ours(self) -> bool:
        return self.agent.startswith(OURS)


class Log:
    """Reads on from where it stood. `mark` begins anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._seen: list[Write] = []
        self.mark()

    def mark(self) -> None:
        """Forget what was written so far."""
        self._offset = self._path.stat().st_size if self._path.exists() else 0
        self._seen = []

    def writes(self) -> list[Write]:
        """All since the mark."""
        with self._path.open("rb") as stream:
            stream.seek(self._offset)
            for line in stream:
                if not line.endswith(b"\n"):  # still being written
                    break
                self._offset += len(line)
                self._seen.append(_write(json.loads(line)))
        return list(self._seen)

    def ours(self, *, namespace: str | None = None, events: bool = False) -> list[Write]:
        """Our own that succeeded since the mark: to pods and nodes, or to events; of one namespace, without nodes."""
        return [
            one
            for one in self.writes()
            if one.ours
            and one.code < 300  # a refused one changes nothing and wakes nobody
            and (one.resource == "events") == events
            and namespace in (None, one.namespace)
        ]


def told(writes: Iterable[Write]) -> str:
    """How many of each kind, as text: `create pods/binding 20`."""
    counted = Counter(f"{one.verb} {one.resource}" for one in writes)
    return ", ".join(f"{kind} {count}" for kind, count in sorted(counted.items())) or "none"


def _write(event: dict[str, dict[str, str]]) -> Write:
    what = event.get("objectRef") or {}
    resource = "/".join(filter(None, (what.get("resource"), what.get("subresource"))))
    return Write(
        verb=str(event["verb"]),
        resource=resource,
        namespace=what.get("namespace", ""),
        name=what.get("name", ""),
        user=event["user"]["username"],
        agent=str(event.get("userAgent", "")),
        code=int((event.get("responseStatus") or {}).get("code", 0)),
    )
