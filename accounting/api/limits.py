"""How often one caller may ask: a bucket of tokens for each, in this process's memory.

No counter is shared: a limit protects the worker that answers, needs no Redis, and costs no write. A caller is an
account; without one, the address that the connection comes from, whatever `X-Forwarded-For` claims. The one token that
agents share has no limit.
Source of the header fields: draft-ietf-httpapi-ratelimit-headers-08.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rest_framework import throttling
from rest_framework.request import Request

from hami_platform import env

REMEMBERED = 10_000
INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Verdict:
    """left: requests that may come at once now; wait_s: until the next one may come; full_s: until all may again."""

    allowed: bool
    left: int
    wait_s: float
    full_s: float


class Buckets:
    """Tokens of each caller, in bounded memory: who was not heard for longest is forgotten, and starts full again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = REMEMBERED) -> None:
        self._clock, self._most = clock, most
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, who: str, *, per_minute: int) -> Verdict:
        """Take one token, if there is one. A bucket holds half a minute's."""
        rate, most = per_minute / 60, max(1.0, per_minute / 2)
        with self._lock:
            now = self._clock()
            tokens, at = self._tokens.get(who, (most, now))
            tokens = min(most, tokens + (now - at) * rate)
            allowed = tokens >= 1
            tokens -= allowed
            self._tokens[who] = (tokens, now)
            self._tokens.move_to_end(who)
            while len(self._tokens) > self._most:
                self._tokens.popitem(last=False)
        return Verdict(allowed, int(tokens), max(0.0, (1 - tokens) / rate), (most - tokens) / rate)


_buckets = Buckets()


def forget() -> None:
    """Everybody starts full again (tests)."""
    global _buckets
    _buckets = Buckets()


class PerCaller(throttling.BaseThrottle):
    """Refuses with 429 and Retry-After once a caller's bucket is empty."""

    _verdict: Verdict | None = None

    def allow_request(self, request: Request, view: Any) -> bool:
        """Whether it may be answered; what is left goes into the answer's header."""
        per_minute = env.current().rest_requests_per_minute
        if not per_minute or request.auth == INTERNAL:
            return True
        self._verdict = _buckets.take(caller(request), per_minute=per_minute)
        view.rate_limit = headers(self._verdict, per_minute)
        return self._verdict.allowed

    def wait(self) -> float | None:
        """Seconds until a token is there."""
        return self._verdict.wait_s if self._verdict is not None else None


def caller(request: Request) -> str:
    """The account, or the connection's own address."""
    key = getattr(request.user, "pk", None)
    return f"account {key}" if key is not None else f"address {request.META.get('REMOTE_ADDR', '')}"


def headers(verdict: Verdict, per_minute: int) -> dict[str, str]:
    """What the caller is told of its limit."""
    return {
        "RateLimit-Policy": f'"requests";q={max(1, per_minute // 2)};w=30',
        "RateLimit": f'"requests";r={verdict.left};t={math.ceil(verdict.full_s)}',
    }
