"""Bodies that nobody should send: whatever stands in whatever place, the answer is one that its reader understands.

Each place of a valid body in turn holds a value of every wrong kind.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scheduler_ext import protocol
from tests.scheduler_ext.world import World, container, pod

pytestmark = pytest.mark.ledger

WRONG = (True, "x", [1], {"a": 1}, {"": None}, 10**30)
Place = tuple[str | int, ...]


def full() -> dict[str, Any]:
    """A pod with every field that anybody reads."""
    made = pod(
        "p", container(gpu=1, gpumem=300, gpucores=10), init=[container("i", gpu=1, gpumem=100)],
        annotations={"nvidia.com/use-gputype": "A"}, labels={"a": "b"}, uid="u", resourceVersion="5",
        creationTimestamp="2026-01-01T00:00:00Z", ownerReferences=[{"kind": "J", "name": "j", "controller": True}],
    )  # fmt: skip
    made["spec"] |= {"schedulingGates": [{"name": "g"}], "priority": 3, "nodeName": "", "nodeSelector": {"a": "b"}}
    made["spec"]["ephemeralContainers"] = [{"name": "e"}]
    made["spec"]["containers"][0] |= {"env": [{"name": "a"}], "securityContext": {"privileged": False}}
    over = {"name": "i", "state": {"terminated": {"exitCode": 0}}, "lastState": {"terminated": {}}, "restartCount": 0}
    made["status"] = {"phase": "Pending", "initContainerStatuses": [over]}
    return made


def review(operation: str) -> dict[str, Any]:
    request = {
        "uid": "r", "kind": {"version": "v1", "kind": "Pod"}, "namespace": "nlp", "name": "p", "operation": operation,
        "userInfo": {"username": "jane", "groups": ["a"]}, "object": full(), "dryRun": False,
        "oldObject": full() if operation == "UPDATE" else None,
    }  # fmt: skip
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every place in a JSON value, the whole of it too."""
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*at, key))


def changed(body: Any, place: Place, value: Any) -> Any:
    if not place:
        return value
    body = copy.deepcopy(body)
    inner = body
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return body


def reviewed(answer: dict[str, Any]) -> bool:
    """Whether the API server can do something with it: a verdict, and a sentence with a refusal."""
    response = answer["response"]
    return response["allowed"] is True or bool(response["status"]["message"])


def filtered(answer: dict[str, Any]) -> bool:
    """Whether kube-scheduler can: an error, or every node in one of the lists."""
    return bool(answer["Error"] or answer["NodeNames"] or answer["Nodes"] or answer["FailedNodes"] is not None)


BODIES: dict[str, tuple[str, dict[str, Any], Callable[[dict[str, Any]], bool]]] = {
    "create": ("/webhook", review("CREATE"), reviewed),
    "update": ("/webhook", review("UPDATE"), reviewed),
    "filter": ("/filter", {"Pod": full(), "Nodes": None, "NodeNames": ["n1", "n1", "nobody"]}, filtered),
    "filter nodes": ("/filter", {"Pod": full(), "Nodes": {"items": [{"metadata": {"name": "n1"}}]}}, filtered),
    "bind": (
        "/bind",
        {"PodName": "p", "PodNamespace": "nlp", "PodUID": "never", "Node": "n1"},
        lambda answer: bool(answer["Error"]),
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_value_of_the_wrong_kind_is_answered_in_band(name: str, world: World) -> None:
    path, body, understood = BODIES[name]
    for place in places(body):
        for value in WRONG:
            answer = world.post(path, changed(body, place, value))
            assert understood(answer), (place, value, answer)


@pytest.mark.parametrize("path", ["/webhook", "/filter", "/bind"])
def test_what_is_no_object_is_answered_in_band(path: str, world: World) -> None:
    for text in (b"", b"null", b"[]", b"1", b'"x"', b"{", b"\xff\xfe", b'{"a":1}{"a":1}', b"[" * 100_000):
        answer = world.post(path, text)
        assert answer.get("Error") or answer["response"]["status"]["code"] == 400, text[:20]


def test_a_field_of_the_wrong_type_is_named(world: World) -> None:
    body = full()
    body["spec"]["containers"][0]["securityContext"] = {"privileged": "yes"}
    message = world.admit(body)["status"]["message"]
    assert "request.object" in message
    assert "privileged" in message


MIB = 1 << 20


def test_a_call_of_more_than_hamis_one_mib_is_read_and_not_cut(world: World) -> None:
    """HAMi cuts there, and what is left is no JSON."""
    names = ["n1", *(f"{number:0>200}" for number in range(8000))]
    made = world.create(pod("p"))
    assert len(json.dumps(names)) > 1.5 * MIB
    answer = world.post("/filter", {"Pod": made, "Nodes": None, "NodeNames": names})
    assert answer["NodeNames"] == ["n1"]


@pytest.mark.parametrize(
    "path, limit, said",
    [
        ("/bind", protocol.BIND_LIMIT, lambda answer: answer["Error"]),
        ("/webhook", protocol.REVIEW_LIMIT, lambda answer: answer["response"]["status"]["message"]),
    ],
)
def test_a_body_that_is_too_large_is_refused_in_band(
    path: str, limit: int, said: Callable[[dict[str, Any]], str], world: World
) -> None:
    assert "not JSON" in said(world.post(path, b" " * limit))
    assert f"larger than {limit} bytes" in said(world.post(path, b" " * (limit + 1)))


@pytest.mark.parametrize("path", ["/webhook", "/filter", "/bind"])
def test_a_call_without_any_body_is_answered_in_band(path: str, world: World) -> None:
    answer = world.http.generic("POST", path)
    assert answer.status_code == 200
    read = answer.json()
    assert read.get("Error") or read["response"]["status"]["code"] == 400


@pytest.mark.parametrize("key", ["Nodes", "NodeNames", "Pod"])
def test_a_null_is_an_absent_key(key: str, world: World) -> None:
    body = {"Pod": full(), "Nodes": None, "NodeNames": ["n1"]}
    body[key] = None
    with_null = world.post("/filter", body)
    del body[key]
    assert world.post("/filter", body)["Error"] == with_null["Error"]
