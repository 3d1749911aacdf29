"""Hooks that make the API server misbehave on purpose. Knows nothing of what the requests mean."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from hami_platform.simulator.api import errors, httpd
from hami_platform.simulator.api.lists import Lists
from hami_platform.simulator.api.store import Store
from hami_platform.simulator.api.types import Request, Response


@dataclass(slots=True)
class _Rule:
    """One fault: `times` requests that match get it; None means all of them until it is lifted."""

    method: str
    path: re.Pattern[str]
    action: str
    times: int | None
    status: int = 500
    delay_s: float = 0.0

    def matches(self, request: Request) -> bool:
        """True for a request that this rule is about."""
        return self.times != 0 and self.method in ("*", request.method) and self.path.search(request.path) is not None


class Faults:
    """The fault hooks of one API server; all of them take effect at once and may be used from any thread."""

    def __init__(self, store: Store, lists: Lists) -> None:
        self._store, self._lists = store, lists
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()

    def cut_watches(self) -> None:
        """End every running watch, as a restarted server or a lost connection does."""
        self._lists.cutter.cut()
        self._store.wake()

    def compact(self) -> None:
        """Forget past events and pages: watches and continue tokens from before get 410."""
        self._store.compact()
        self._lists.forget_pages()

    def fail(self, path: str, *, method: str = "*", status: int = 500, times: int | None = 1) -> None:
        """Answer matching requests with an error instead of carrying them out. `path` is a regular expression."""
        self._add(_Rule(method, re.compile(path), "fail", times, status=status))

    def hang_up(self, path: str, *, method: str = "*", times: int | None = 1) -> None:
        """Close the connection without carrying matching requests out."""
        self._add(_Rule(method, re.compile(path), "hang up", times))

    def lose_answer(self, path: str, *, method: str = "*", times: int | None = 1) -> None:
        """Carry matching requests out, then close the connection instead of answering: an ambiguous outcome."""
        self._add(_Rule(method, re.compile(path), "lose", times))

    def delay(self, path: str, delay_s: float, *, method: str = "*", times: int | None = 1) -> None:
        """Let matching requests wait before they are carried out."""
        self._add(_Rule(method, re.compile(path), "delay", times, delay_s=delay_s))

    def outage(self) -> None:
        """Hang up on everybody, watches included, until `lift`."""
        self.hang_up("", times=None)
        self.cut_watches()

    def lift(self) -> None:
        """Take every fault back."""
        with self._lock:
            self._rules.clear()

    def around(self, request: Request, carry_out: Callable[[Request], Response]) -> Response:
        """Carry a request out under the first rule that matches it."""
        rule = self._taken(request)
        if rule is None:
            return carry_out(request)
        if rule.action == "hang up":
            raise httpd.HangUp
        if rule.action == "fail":
            raise errors.ApiError(
                rule.status, "InternalError", "an error on the server has prevented the request from succeeding"
            )
        if rule.action == "delay":
            time.sleep(rule.delay_s)
            return carry_out(request)
        carry_out(request)
        raise httpd.HangUp

    def _add(self, rule: _Rule) -> None:
        with self._lock:
            self._rules.append(rule)

    def _taken(self, request: Request) -> _Rule | None:
        with self._lock:
            rule = next((rule for rule in self._rules if rule.matches(request)), None)
            if rule is not None and rule.times is not None:
                rule.times -= 1
            return rule
