"""What every test may ask for: servers, and Hypothesis settings that a busy machine does not break."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

import hypothesis
import pytest
from django.utils import translation

from tests import servers

_SLOW = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large]
hypothesis.settings.register_profile("default", deadline=None, suppress_health_check=_SLOW, print_blob=True)
hypothesis.settings.register_profile("thorough", hypothesis.settings.get_profile("default"), max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="measure less: smaller clusters, shorter runs, same budgets")
    parser.addoption("--nodes", type=int, default=5000, help="fake nodes of the whole path's measurements")
    parser.addoption("--pods", type=int, default=2000, help="pods of the whole path's measurements")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is about the other database."""
    vendor = "postgresql" if os.environ.get("TEST_LEDGER") == "postgres" else "sqlite"
    here, elsewhere = [], []
    for item in items:
        only = item.get_closest_marker("only")
        (here if only is None or vendor in only.args else elsewhere).append(item)
    config.hook.pytest_deselected(items=elsewhere)
    items[:] = here


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where CI=true everything is there that tests need: a skip is a failure."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome, report.longrepr = "failed", f"skipped although CI=true: {reason}"
    return report


@pytest.fixture(scope="session")
def quick(request: pytest.FixtureRequest) -> bool:
    """Whether the run should measure less."""
    return bool(request.config.getoption("--quick"))


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """As pytest-django's; at the end without whoever is still connected, since PostgreSQL drops no database in use.

    A thread of the product that serves until its process ends may hold a connection then.
    """
    yield
    from django.db import connection

    with django_db_blocker.unblock():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )


@pytest.fixture(autouse=True)
def in_no_language() -> Iterator[None]:
    """The last request's language stays its thread's: a command in the next test would speak it."""
    yield
    translation.deactivate()


@pytest.fixture(autouse=True)
def no_connection_is_lost() -> Iterator[None]:
    """A test whose threads keep their connections is to blame itself: the pool's end would be some later test's."""
    yield
    if os.environ.get("TEST_LEDGER") == "postgres":
        from tests import threads

        assert threads.lost_connections() == 0, "its threads have to give their connections back: threads.alone"


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """A PostgreSQL server, by the URL of its own database. For a database of one's own: `fresh_postgres`."""
    try:
        return servers.postgres_url()
    except servers.ServerMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def redis_url() -> str:
    """A Redis server. Its keys are shared by the run: use names of your own."""
    try:
        return servers.redis_url()
    except servers.ServerMissing as error:
        pytest.skip(str(error))


@pytest.fixture
def fresh_postgres(postgres_url: str) -> Iterator[str]:
    """The URL of an empty PostgreSQL database that only this test has."""
    with servers.fresh_database(postgres_url) as url:
        yield url
