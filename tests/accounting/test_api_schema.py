"""Whatever the schema allows, the API answers as the schema says: no 500, no undeclared status, no other body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, given, settings
from schemathesis import Case
from schemathesis.specs.openapi import checks

from accounting import models
from accounting.services import quotas, tokens
from hami_platform.domain.quota import Limits
from tests.accounting import rows


def no_fault(_context: Any, response: Any, _case: Case) -> None:
    """Of ours. 503 is an answer: ask again."""
    assert response.status_code != 500, response.text


CHECKS = [
    no_fault,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@pytest.fixture
def rest(db: None) -> Iterator[Any]:
    """The API over a small cluster, asked by a superuser's token, inside the test's transaction."""
    models.User.objects.create_superuser("root")
    _, token = tokens.token_create(user="root")
    rows.node()
    rows.pod()
    rows.pod("q1", namespace="cv", state="waiting", shares=())
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=40960), reason="set up", actor="root")
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
    schema = schemathesis.openapi.from_wsgi("/api/schema?format=json", get_wsgi_application(), headers=headers)
    schema.config.update(headers=headers)
    yield schema
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.mark.timeout(600)  # hundreds of requests: on a busy machine more than any other test may take
def test_answers_keep_the_schema(rest: Any) -> None:
    _all_keep(rest, examples=5)


@pytest.mark.soak
def test_answers_keep_the_schema_whatever_is_asked(rest: Any) -> None:
    _all_keep(rest, examples=100)


def _all_keep(rest: Any, *, examples: int) -> None:
    operations = [found.ok() for found in rest.get_all_operations()]
    assert len(operations) >= 40
    for operation in operations:
        _keeps(operation, examples)


def _keeps(operation: Any, examples: int) -> None:
    @given(case=operation.as_strategy())
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def answers(case: Case) -> None:
        if case.query:
            case.query.pop("fields", None)  # what is left of a row then is not the row's shape
        case.call_and_validate(checks=CHECKS)

    answers()
