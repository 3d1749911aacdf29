"""`/webhook` over TLS, served by the real listener: what every creation of a pod waits for.

Plain pods come one after another; pods with devices at 50 a second over several connections, each claiming quota. What
is asserted is processor time, which other programs on the machine change least.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time

import pytest

from tests.perf import serving

pytestmark = [pytest.mark.perf, pytest.mark.timeout(600)]

PLAIN_PROCESSOR_MS, CLAIM_PROCESSOR_MS = 5, 25
PER_S, CONNECTIONS = 50, 4
_numbers = itertools.count()


def body(limits: dict[str, str]) -> bytes:
    """kube-apiserver's request about one new pod."""
    number = next(_numbers)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"created-{number}", "namespace": "team1"},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}]},
    }
    asked = {
        "uid": f"review-{number}", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "namespace": "team1",
        "name": f"created-{number}", "operation": "CREATE", "userInfo": {"username": "ann"}, "object": pod,
    }  # fmt: skip
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()


def allowed(answer: bytes) -> None:
    found = json.loads(answer)["response"]
    assert found["allowed"], found


def claimed(answer: bytes) -> None:
    allowed(answer)
    assert json.loads(answer)["response"]["patch"]


def at_a_rate(served: serving.Listener, bodies: list[bytes]) -> serving.Figures:
    """Calls at their times over several connections; one that begins late has waited since its time."""
    took: list[float] = []
    began, cpu_s = time.perf_counter(), served.cpu_s()

    def send(first: int) -> None:
        with contextlib.closing(served.connect()) as connection:
            for index in range(first, len(bodies), CONNECTIONS):
                due = began + index / PER_S
                time.sleep(max(0.0, due - time.perf_counter()))
                connection.request("POST", "/webhook", bodies[index], {"Content-Type": "application/json"})
                claimed(connection.getresponse().read())
                took.append((time.perf_counter() - due) * 1000)

    threads = [threading.Thread(target=send, args=(first,)) for first in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(took) == len(bodies)
    return serving.figures(took, served.cpu_s() - cpu_s)


def test_admission_keeps_its_budget(large: serving.Ground, quick: bool) -> None:
    calls = 200 if quick else 2000
    plain, asking = {"cpu": "1"}, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "100"}
    with serving.listener("webhook", large) as served:
        one = serving.measured(served, "/webhook", [body(plain) for _ in range(calls)], allowed)
        serving.report(f"/webhook, plain pod: {one}")
        serving.measured(served, "/webhook", [body(asking) for _ in range(12)], claimed)
        other = at_a_rate(served, [body(asking) for _ in range(calls)])
        serving.report(f"/webhook, {large.name}, {large.size}, claim, {PER_S}/s: {other}")
    assert one.cpu_ms < PLAIN_PROCESSOR_MS
    assert other.cpu_ms < CLAIM_PROCESSOR_MS
