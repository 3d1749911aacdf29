"""How one setting is written as text and what it becomes: numbers, durations, lists, addresses, database URLs.

Pure: knows neither the names of the settings nor where their text comes from. Every reader raises ValueError with a
message that completes the sentence "HAMI_X: …".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

_TRUE: Final = frozenset({"1", "t", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "f", "false", "no", "off"})
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|h|m|s))+")
_STEP: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_UNIT_S: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def text(value: str) -> str:
    """Any text, without blanks around it."""
    return value.strip()


def sha256(value: str) -> str:
    """A hash as 64 hexadecimal digits, in lower case; or nothing."""
    found = value.strip().lower()
    if found and not re.fullmatch(r"[0-9a-f]{64}", found):
        raise ValueError(f"{value!r} is not 64 hexadecimal digits")
    return found


def boolean(value: str) -> bool:
    """true/false, yes/no, on/off, t/f, 1/0; in any case."""
    word = value.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(f"must be true or false, not {value!r}")


def integer(minimum: int, maximum: int | None = None) -> Callable[[str], int]:
    """A reader of whole numbers from `minimum` to `maximum`."""

    def read(value: str) -> int:
        if not re.fullmatch(r"[+-]?\d+", value.strip()):
            raise ValueError(f"must be a whole number, not {value!r}")
        number = int(value)
        if number < minimum or (maximum is not None and number > maximum):
            bound = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
            raise ValueError(f"must be {bound}, not {number}")
        return number

    return read


def positive(value: str) -> float:
    """A number greater than 0."""
    if not re.fullmatch(r"\d+(\.\d+)?", value.strip()) or float(value) == 0:
        raise ValueError(f"must be a number greater than 0, not {value!r}")
    return float(value)


def seconds(value: str) -> float:
    """A duration in seconds: `5m`, `1h30m`, `500ms`, or a bare number of seconds."""
    word = value.strip()
    if re.fullmatch(r"\d+(\.\d+)?", word):
        return float(word)
    if not _DURATION.fullmatch(word):
        raise ValueError(f"must be a duration such as 28s, 5m or 1h30m, not {value!r}")
    return sum(float(number) * _UNIT_S[unit] for number, unit in _STEP.findall(word))


def some_seconds(value: str) -> float:
    """A duration that is longer than nothing."""
    found = seconds(value)
    if found <= 0:
        raise ValueError(f"must be longer than 0, not {value!r}")
    return found


def words(value: str) -> tuple[str, ...]:
    """A comma-separated list; blanks around its items and empty items do not count."""
    return tuple(item.strip() for item in value.split(",") if item.strip())


def choice(*allowed: str) -> Callable[[str], str]:
    """A reader of one of some words."""

    def read(value: str) -> str:
        if value.strip() not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}, not {value!r}")
        return value.strip()

    return read


def several(*allowed: str) -> Callable[[str], tuple[str, ...]]:
    """A comma list of some of these words, each once."""

    def read(value: str) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(words(value)))
        if bad := [word for word in found if word not in allowed]:
            raise ValueError(f"{bad[0]!r} is not one of {', '.join(allowed)}")
        return found

    return read


def device_policy(value: str) -> str:
    """A GPU policy as HAMi writes it: one word, or a comma chain of words."""
    known = ("binpack", "spread", "mutex", "topology-aware", "numa")
    unknown = [word for word in words(value) if word not in known]
    if unknown or not words(value):
        raise ValueError(f"must be a comma list of {', '.join(known)}, not {value!r}")
    return ",".join(words(value))


def labels(value: str) -> tuple[tuple[str, str], ...]:
    """Label pairs, `key=value,key2=value2`, sorted by key."""
    pairs = [item.partition("=") for item in words(value)]
    bad = next((key for key, equals, _ in pairs if not equals or not key), None)
    if bad is not None:
        raise ValueError(f"must be label=value pairs separated by commas, not {value!r}")
    return tuple(sorted((key.strip(), word.strip()) for key, _, word in pairs))


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener listens."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in {"localhost", "::1"} or self.host.startswith("127.")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address(value: str) -> Address:
    """`host:port`, `[v6]:port`, or `:port` for every address."""
    host, _, port = value.strip().rpartition(":")
    if not re.fullmatch(r"\d{1,5}", port) or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise ValueError(f"must be host:port, not {value!r}")
    return Address(host.strip("[]") or "0.0.0.0", int(port))  # noqa: S104 - `:port` means every address, as in HAMi


def optional_address(value: str) -> Address | None:
    """As `address`; empty means no listener."""
    return address(value) if value.strip() else None


@dataclass(frozen=True, slots=True)
class Database:
    """Which database holds the ledger. `host` may be the folder of a Unix socket."""

    engine: str
    name: str
    user: str = ""
    password: str = ""
    host: str = ""
    port: int | None = None
    options: tuple[tuple[str, str], ...] = ()

    @property
    def postgres(self) -> bool:
        """Whether it is PostgreSQL; else it is SQLite."""
        return self.engine == "postgresql"

    def __repr__(self) -> str:
        return f"Database({self.engine} {self.name!r} at {self.host or 'this machine'})"  # never the password


def database(value: str) -> Database | None:
    """`postgresql://user:password@host:port/name?sslmode=…` or `sqlite:///path`; empty: SQLite in the state folder."""
    word = value.strip()
    if not word:
        return None
    try:
        parts = urlsplit(word)
        port = parts.port
    except ValueError as error:
        raise ValueError("is not a database URL") from error  # the value may hold a password: not shown
    if parts.scheme == "sqlite":
        if not parts.path.removeprefix("/"):
            raise ValueError("must name a file: sqlite:///relative/path or sqlite:////absolute/path")
        return Database("sqlite", unquote(parts.path.removeprefix("/")))
    if parts.scheme not in {"postgresql", "postgres"}:
        raise ValueError("must begin with postgresql:// or sqlite:///")
    if not parts.path.strip("/"):
        raise ValueError("must name a database: postgresql://user:password@host:5432/name")
    options = dict(parse_qsl(parts.query))
    return Database(
        engine="postgresql",
        name=unquote(parts.path.strip("/")),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        host=options.pop("host", unquote(parts.hostname or "")),
        port=port,
        options=tuple(sorted(options.items())),
    )


def redis_url(value: str) -> str:
    """`redis://`, `rediss://` or `redis+socket://`; empty: embedded."""
    word = value.strip()
    if word and not re.match(r"(rediss?|redis\+socket|unix)://", word):
        raise ValueError("must begin with redis://, rediss:// or redis+socket://")
    return word


def http_url(value: str) -> str:
    """`http://` or `https://` with a host; empty: none."""
    word = value.strip()
    if word and not re.match(r"https?://[^/\s]+", word):
        raise ValueError(f"must begin with http:// or https:// and a host, not {value!r}")
    return word
