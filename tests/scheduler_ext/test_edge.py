"""What a call leaves behind: nothing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from django.test import RequestFactory
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler_ext import edge, protocol

held: list[weakref.ref[object]] = []


class Answers(edge.MachineView):
    """Answers with something that can be looked for."""

    def post(self, request: Request) -> Response:
        """Reads the body, as all do."""
        held.extend(map(weakref.ref, (self, request)))
        assert self.body(request)
        return Response(protocol.FilterResult(error="none"))


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What lives on although nobody needs it stays."""
    held.clear()
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.django_db  # a closed answer gives the connections of tests before it back
@pytest.mark.usefixtures("no_collector")
def test_an_answered_call_needs_no_garbage_collector() -> None:
    response = Answers.as_view()(RequestFactory().post("/", b"x", content_type="application/json"))
    assert response.content.startswith(b'{"Nodes":null')
    response.close()
    del response

    assert len(held) == 2
    assert [one() for one in held] == [None, None]
