"""The cache in Redis, and in this process's memory while Redis is away: nobody is kept from signing in by that.

What is cached are counts of failed sign-ins and the like. In memory they are counted per process instead of for all.
Knows no app.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache

from hami_platform import logs

PAUSE_S = 5.0
"""After a failure Redis is left alone for so long: one that swallows connections costs a second each time."""

_log = logs.get(__name__)


def _of_redis_or_memory(name: str) -> Callable[..., Any]:
    def method(self: RedisOrMemory, *args: Any, **kwargs: Any) -> Any:
        if time.monotonic() >= self.again_at_s:
            try:
                return getattr(RedisCache, name)(self, *args, **kwargs)
            except self.away as fault:
                self.again_at_s = time.monotonic() + PAUSE_S
                _log.warning("cache_in_memory", why=str(fault).partition("\n")[0])
        return getattr(self.memory, name)(*args, **kwargs)

    return method


class RedisOrMemory(RedisCache):
    """Django's cache in Redis, with another one behind it."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self.memory = LocMemCache("while-redis-is-away", {})
        self.again_at_s = 0.0

    @property
    def away(self) -> tuple[type[Exception], ...]:
        """What a server that is away looks like."""
        library: Any = self._cache._lib  # type: ignore[attr-defined]  # Django's own, so that only it imports redis
        return (library.ConnectionError, library.TimeoutError)

    add = _of_redis_or_memory("add")
    get = _of_redis_or_memory("get")
    set = _of_redis_or_memory("set")
    touch = _of_redis_or_memory("touch")
    delete = _of_redis_or_memory("delete")
    get_many = _of_redis_or_memory("get_many")
    has_key = _of_redis_or_memory("has_key")
    incr = _of_redis_or_memory("incr")
    set_many = _of_redis_or_memory("set_many")
    delete_many = _of_redis_or_memory("delete_many")
    clear = _of_redis_or_memory("clear")
