"""The simulated API server answers as the real one does: the same requests to both, the answers compared.

What differs on purpose is written down in KNOWN, with the reason.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_platform.simulator.apiserver import ApiServer
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kube import eventually
from tests.simulator import exchange, exchange_other, exchange_pods

CASES = (*exchange_pods.CASES, *exchange_other.CASES)
KNOWN = {
    "a list at exactly revision 1": "only the present is kept: a past revision is answered as if it were compacted"
}


class Caller:
    """Raw requests over one connection."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    def __call__(self, call: exchange.Call) -> tuple[int, Any]:
        body = call.body if isinstance(call.body, bytes) else None if call.body is None else json.dumps(call.body)
        headers = {"Accept": call.accept, "User-Agent": "fidelity"}
        if body is not None:
            headers["Content-Type"] = call.media
        self._connection.request(call.method, call.path, body, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        lines = text.decode().splitlines()
        try:
            return answer.status, [json.loads(line) for line in lines] if "watch=1" in call.path else json.loads(text)
        except ValueError:
            return answer.status, {"message": text.decode()}

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def real(plane: ControlPlane) -> Iterator[Caller]:
    user = yaml.safe_load(Path(plane.kubeconfig("admin")).read_text())["users"][0]["user"]
    context = ssl.create_default_context(cafile=str(plane.authority.certificate))
    context.load_cert_chain(user["client-certificate"], user["client-key"])
    caller = Caller(http.client.HTTPSConnection("127.0.0.1", plane.port, context=context))
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
    case = CASES[number]
    if case.name in KNOWN:
        pytest.xfail(KNOWN[case.name])
    answers = [exchange.comparable(case, played(case, f"case-{number}", caller)) for caller in (simulated, real)]
    assert answers[0] == answers[1]


def played(case: exchange.Case, namespace: str, caller: Caller) -> tuple[int, Any]:
    """Play a case in a namespace of its own, once its service account is there, and take the namespace away."""
    path = f"/api/v1/namespaces/{namespace}"
    caller(exchange.Call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}))
    eventually("the service account", lambda: caller(exchange.Call("GET", f"{path}/serviceaccounts/default"))[0] == 200)
    try:
        return exchange.play(case, namespace, caller)
    finally:
        caller(exchange.Call("DELETE", path))
