"""The port: what the rest of the project needs from an API server.

Services, watcher and agent are typed against `Api`, so that only a process's start names the
client behind it. Must not know: the `kubernetes` package, sockets, or what calls are for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

from hami_platform.kube import calls

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Stream(Protocol[T_co]):
    """An open watch. Iterating ends when the server ends it, it is cut, or it is closed."""

    def __iter__(self) -> Iterator[T_co]: ...

    def close(self) -> None:
        """End it; may be called by another thread while one is blocked reading. Idempotent."""


class Api(Protocol):
    """Sends calls. Every method raises only `errors.KubeError`."""

    def send(self, call: calls.KubeCall[T], *, timeout_s: float | None = None) -> T:
        """The decoded answer. A write is sent at most once; a read may be repeated once."""
        ...

    def watch(self, call: calls.KubeCall[T], *, idle_s: float) -> Stream[T]:
        """Open a watch; `idle_s` without a single event ends it quietly (half-open connection)."""
        ...
