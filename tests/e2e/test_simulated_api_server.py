"""The simulated API server answers as the real one does: the same requests to both, the answers compared."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from hami_platform.simulator.apiserver import ApiServer
from tests.cluster.control_plane import ControlPlane
from tests.simulator.record_exchange import CASES, Caller, played
from tests.simulator.test_exchange import KNOWN


@pytest.fixture(scope="module")
def real(plane: ControlPlane) -> Iterator[Caller]:
    # The simulated server has no scheduler beside it either.
    with plane.without_scheduler():
        caller = Caller.of(plane)
        yield caller
        caller.close()


@pytest.fixture(scope="module")
def simulated() -> Iterator[Caller]:
    with ApiServer() as server:
        caller = Caller(http.client.HTTPConnection(server.url.removeprefix("http://")))
        yield caller
        caller.close()


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_both_answer_alike(number: int, real: Caller, simulated: Caller) -> None:
    if CASES[number].name in KNOWN:
        assert played(number, simulated) != played(number, real)
    else:
        assert played(number, simulated) == played(number, real)
