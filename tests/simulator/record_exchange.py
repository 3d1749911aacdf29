"""`python -m tests.simulator.record_exchange`: what a real kube-apiserver answers, written to tests/golden/captured.

The quick tests compare the simulated API server with this recording; the end-to-end test compares both live.
"""

from __future__ import annotations

import http.client
import json
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import binaries, control_plane
from tests.simulator import exchange, exchange_other, exchange_pods
from tests.simulator.equipment import CAPTURED, wait_for

CASES = (*exchange_pods.CASES, *exchange_other.CASES)
RECORDING = CAPTURED / "apiserver-exchange.json"


class Caller:
    """Raw requests over one connection."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    @classmethod
    def of(cls, plane: control_plane.ControlPlane) -> Caller:
        """As administrator of a real control plane."""
        user = yaml.safe_load(plane.kubeconfig("admin").read_text())["users"][0]["user"]
        context = ssl.create_default_context(cafile=str(plane.authority.certificate))
        context.load_cert_chain(user["client-certificate"], user["client-key"])
        return cls(http.client.HTTPSConnection("127.0.0.1", plane.port, context=context))

    def __call__(self, call: exchange.Call) -> tuple[int, Any]:
        body = call.body if isinstance(call.body, bytes) else None if call.body is None else json.dumps(call.body)
        headers = {"Accept": call.accept, "User-Agent": "fidelity"}
        if body is not None:
            headers["Content-Type"] = call.media
        self._connection.request(call.method, call.path, body, headers)
        answer = self._connection.getresponse()
        text = answer.read().decode()
        try:
            many = "watch=1" in call.path
            return answer.status, [json.loads(line) for line in text.splitlines()] if many else json.loads(text)
        except ValueError:
            return answer.status, {"message": text}

    def close(self) -> None:
        """End it."""
        self._connection.close()


def played(number: int, caller: Callable[[exchange.Call], tuple[int, Any]]) -> Any:
    """Play a case in a namespace of its own, once its service account is there; what must be equal, as JSON."""
    case, namespace = CASES[number], f"case-{number}"
    path = f"/api/v1/namespaces/{namespace}"
    caller(exchange.Call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}))
    wait_for(lambda: caller(exchange.Call("GET", f"{path}/serviceaccounts/default"))[0] == 200, "the service account")
    try:
        answer = exchange.play(case, namespace, caller)
    finally:
        caller(exchange.Call("DELETE", path))
    return json.loads(json.dumps(exchange.comparable(case, answer)))


def main() -> None:
    """Record every case."""
    with tempfile.TemporaryDirectory() as folder, control_plane.running(Path(folder), binaries.ensure()) as plane:
        caller = Caller.of(plane)
        answers = {case.name: played(number, caller) for number, case in enumerate(CASES)}
        caller.close()
    lines = [f"{json.dumps(name)}: {json.dumps(answer, sort_keys=True)}" for name, answer in answers.items()]
    RECORDING.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
