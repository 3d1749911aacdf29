from __future__ import annotations

import psycopg
import pytest
import redis
from django.db import connection


def test_the_postgres_fixture_answers(fresh_postgres: str) -> None:
    with psycopg.connect(fresh_postgres) as own:
        assert own.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def test_the_redis_fixture_answers(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.set("tests/servers", "1", ex=10)


@pytest.mark.ledger
@pytest.mark.django_db
def test_migrations_reach_the_test_database() -> None:
    assert "accounting_user" in connection.introspection.table_names()
