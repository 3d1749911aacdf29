from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform import env_values as values


@pytest.mark.parametrize(
    "read,text,meant",
    [
        (values.boolean, "True", True),
        (values.boolean, "off", False),
        (values.seconds, "5m", 300.0),
        (values.seconds, "1h30m", 5400.0),
        (values.seconds, "500ms", 0.5),
        (values.seconds, "15", 15.0),
        (values.words, " a, b,,", ("a", "b")),
        (values.words, "", ()),
        (values.labels, "b=2,a=1", (("a", "1"), ("b", "2"))),
        (values.labels, "gpu=", (("gpu", ""),)),
        (values.device_policy, "binpack, numa", "binpack,numa"),
        (values.address, ":9443", values.Address("0.0.0.0", 9443)),
        (values.address, "[::1]:80", values.Address("::1", 80)),
        (values.optional_address, "", None),
        (values.redis_url, "", ""),
        (values.database, "", None),
        (values.database, "sqlite:////var/x.db", values.Database("sqlite", "/var/x.db")),
        (values.database, "sqlite:///x.db", values.Database("sqlite", "x.db")),
    ],
)
def test_what_a_text_means(read: Callable[[str], Any], text: str, meant: object) -> None:
    assert read(text) == meant


@pytest.mark.parametrize(
    "read,text",
    [
        (values.boolean, "maybe"),
        (values.boolean, ""),
        (values.integer(0), "1.5"),
        (values.integer(0), "-1"),
        (values.integer(1, 9), "10"),
        (values.positive, "0"),
        (values.positive, "-2"),
        (values.seconds, "5 m"),
        (values.seconds, "m"),
        (values.seconds, "-5s"),
        (values.seconds, ""),
        (values.choice("a", "b"), "c"),
        (values.labels, "gpu"),
        (values.labels, "=1"),
        (values.device_policy, "random"),
        (values.device_policy, ""),
        (values.address, "localhost"),
        (values.address, "::1:80"),
        (values.address, "h:70000"),
        (values.redis_url, "http://x"),
        (values.database, "postgresql://db"),
        (values.database, "postgresql://db:port/x"),
        (values.database, "sqlite:///"),
    ],
)
def test_what_is_refused(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(text)


def test_a_postgres_url_with_everything() -> None:
    url = values.database("postgresql://me:p%40ss@db:5433/quota?sslmode=require")
    assert url == values.Database("postgresql", "quota", "me", "p@ss", "db", 5433, (("sslmode", "require"),))


def test_a_postgres_socket_is_its_folder() -> None:
    url = values.database("postgresql://me@/quota?host=/run/postgresql")
    assert url is not None
    assert (url.host, url.options) == ("/run/postgresql", ())


@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_duration_is_the_sum_of_its_steps(hours: int, minutes: int, whole: int) -> None:
    assert values.seconds(f"{hours}h{minutes}m{whole}s") == hours * 3600 + minutes * 60 + whole


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused_by_a_value_error(text: str) -> None:
    for read in (values.seconds, values.address, values.database, values.labels, values.integer(0), values.boolean):
        try:
            read(text)
        except ValueError:
            continue
