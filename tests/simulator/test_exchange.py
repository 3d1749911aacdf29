"""The simulated API server against what kube-apiserver v1.36.3 answered to the same requests (a recording).

What differs on purpose is in KNOWN, with the reason.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from hami_platform.simulator.apiserver import ApiServer
from tests.simulator import equipment
from tests.simulator.record_exchange import CASES, RECORDING, Caller, played

KNOWN = {"a list at exactly revision 1": "only the present is kept: a past revision is answered as if compacted"}
RECORDED = equipment.captured(RECORDING.name)


@pytest.fixture(scope="module")
def simulated() -> Iterator[Caller]:
    with ApiServer() as server:
        caller = Caller(http.client.HTTPConnection(server.url.removeprefix("http://")))
        yield caller
        caller.close()


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_it_answers_as_the_real_one_did(number: int, simulated: Caller) -> None:
    name = CASES[number].name
    answer = played(number, simulated)
    if name in KNOWN:
        assert answer != RECORDED[name], "it does not differ any more: strike it from KNOWN"
    else:
        assert answer == RECORDED[name]


def test_every_recorded_case_is_played() -> None:
    assert set(RECORDED) == {case.name for case in CASES}
