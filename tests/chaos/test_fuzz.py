"""Any bytes, any JSON and nearly valid bodies to every route of the listeners, as a WSGI server hands them over.

Whatever comes, the answer is one that its reader understands, nothing escapes, nothing is held that no answer granted,
and nothing is kept of junk.
"""

from __future__ import annotations

import base64
import gc
import io
import json
import logging
import tracemalloc
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from wsgiref import util

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import got_request_exception
from django.test import override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounting import loading
from accounting.models import Clock, Namespace, NodeLock, Pod, Share
from hami_platform import env
from scheduler_ext import events, traces
from tests.chaos import test_bodies
from tests.scheduler_ext.refitting import TOKEN
from tests.scheduler_ext.world import World, pod, total_mib

pytestmark = pytest.mark.ledger

POSTS = ("/webhook", "/filter", "/bind", "/refit")
READS = ("/healthz", "/livez", "/startupz", "/readyz", "/readyz?verbose", "/metrics")
REFIT = {
    "podUID": "never", "podNamespace": "nlp", "podName": "p", "nodeName": "n1", "containerIndex": 0,
    "containerName": "main", "deviceType": "NVIDIA", "allowedDeviceUUIDs": ["GPU-n1-0"],
}  # fmt: skip
VALID = {
    "/webhook": test_bodies.review("CREATE"),
    "/filter": {"Pod": test_bodies.full(), "Nodes": None, "NodeNames": ["n1"]},
    "/bind": {"PodName": "p", "PodNamespace": "nlp", "PodUID": "never", "Node": "n1"},
    "/refit": REFIT,
}
BEARER = {"HTTP_AUTHORIZATION": f"Bearer {TOKEN}"}

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def nearly(draw: st.DrawFn, path: str) -> bytes:
    """A valid body with values of other kinds in some of its places, or with some bytes changed."""
    body: Any = VALID[path]
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(list(test_bodies.places(body))))
        body = test_bodies.changed(body, place, draw(JSON))
    text = json.dumps(body).encode()
    if draw(st.booleans()):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.binary(max_size=5)) + text[at + draw(st.integers(0, 5)) :]
    return text


@st.composite
def sent(draw: st.DrawFn) -> tuple[str, bytes]:
    """(path, body)."""
    path = draw(st.sampled_from(POSTS))
    return path, draw(st.binary(max_size=80) | JSON.map(lambda value: json.dumps(value).encode()) | nearly(path))


def call(path: str, body: bytes, method: str = "POST", **environ: Any) -> tuple[str, bytes]:
    """(status line, body) of the application."""
    made: dict[str, Any] = {
        "REQUEST_METHOD": method, "PATH_INFO": path, "CONTENT_LENGTH": str(len(body)),
        "CONTENT_TYPE": "application/json", "wsgi.input": io.BytesIO(body), **BEARER, **environ,
    }  # fmt: skip
    util.setup_testing_defaults(made)
    said: list[str] = []
    handler: Any = WSGIHandler()
    answer = handler(made, lambda status, *_rest: said.append(status))
    try:
        return said[0], b"".join(answer)
    finally:
        answer.close()


@contextmanager
def listening() -> Iterator[list[str]]:
    """As the listeners run: no middleware. Yields what escaped, by path."""
    escaped: list[str] = []

    def tell(request: Any, **_kwargs: Any) -> None:
        escaped.append(request.path)

    got_request_exception.connect(tell)
    logging.disable()  # pytest keeps every record
    try:
        with override_settings(MIDDLEWARE=[], ROOT_URLCONF="scheduler_ext.urls"), env.override(internal_token=TOKEN):
            yield escaped
    finally:
        logging.disable(logging.NOTSET)
        got_request_exception.disconnect(tell)


def rows() -> tuple[Any, ...]:
    """All that the ledger holds. The namespaces are names alone: a first pod gives its own a row."""
    pods = Pod.objects.exclude(state="ended").order_by("pk").values_list("pk", "uid", "state", "node", "claim_id")
    return list(pods), Share.objects.count(), NodeLock.objects.count(), Clock.objects.get().revision


def understood(path: str, body: bytes) -> dict[str, Any]:
    """The answer, which must be of the protocol."""
    answer = json.loads(body)
    if path == "/webhook":
        assert answer["kind"] == "AdmissionReview"
        response = answer["response"]
        assert response["allowed"] is True or response["status"]["message"]
        if "patch" in response:
            assert isinstance(json.loads(base64.b64decode(response["patch"])), list)
    elif path == "/filter":
        assert set(answer) == {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
        assert test_bodies.filtered(answer) or answer["NodeNames"] == [] or answer["Nodes"]
    elif path == "/bind":
        assert answer["Error"]
    else:
        assert answer["succeeded"] is False
        assert answer["failureReason"]
    return dict(answer)


def granted(path: str, answer: dict[str, Any]) -> bool:
    """Whether the answer gave something: a claim, or a place."""
    if path == "/webhook":
        return "patch" in answer["response"]
    return bool(path == "/filter" and (answer["NodeNames"] or answer["Nodes"]))


def test_whatever_is_sent_is_answered_in_band_and_nothing_is_held_that_was_not_granted(world: World) -> None:
    @settings(max_examples=150, suppress_health_check=list(HealthCheck))
    @given(sent())
    def send(request: tuple[str, bytes]) -> None:
        path, body = request
        before = rows()
        status, answer = call(path, body)
        assert status == "200 OK", (status, answer)
        if not granted(path, understood(path, answer)):
            assert rows() == before
        assert escaped == []

    with listening() as escaped:
        send()


def test_bytes_and_json_of_no_meaning_hold_nothing(world: World) -> None:
    before, namespaces = rows(), Namespace.objects.count()

    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(POSTS), st.binary(max_size=80) | JSON.map(lambda value: json.dumps(value).encode()))
    def send(path: str, body: bytes) -> None:
        answer = understood(path, call(path, body)[1])
        assert not granted(path, answer)

    with listening() as escaped:
        send()
    assert (rows(), Namespace.objects.count(), escaped, total_mib()) == (before, namespaces, [], 0)


NAMES = (
    "CONTENT_TYPE", "HTTP_ACCEPT", "HTTP_CONTENT_ENCODING", "HTTP_AUTHORIZATION", "CONTENT_LENGTH", "QUERY_STRING",
    "HTTP_HOST", "HTTP_TRANSFER_ENCODING", "HTTP_COOKIE", "HTTP_X_HTTP_METHOD_OVERRIDE",
)  # fmt: skip
ODD = ("-1", "99999999999", "multipart/form-data; boundary=x", "application/json; charset=utf-7", "Bearer")
HEADERS = st.dictionaries(
    st.sampled_from(NAMES),
    st.text(st.characters(max_codepoint=255), max_size=20) | st.sampled_from(ODD),
    max_size=4,
)


def test_no_header_method_or_path_gets_through_to_a_fault(world: World) -> None:
    @settings(max_examples=80, suppress_health_check=list(HealthCheck))
    @given(
        st.sampled_from(POSTS + READS) | st.text(max_size=8).map(lambda text: "/" + urllib.parse.quote(text)),
        st.sampled_from(("POST", "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW")),
        HEADERS,
    )
    def send(path: str, method: str, headers: dict[str, str]) -> None:
        before = rows()
        status, _ = call(path, b"{}", method, **headers)
        assert status[:3] in {"200", "301", "400", "401", "404", "405", "406", "415", "503"}, status
        assert rows() == before

    with listening() as escaped:
        send()
    assert escaped == []


def junk(number: int) -> Iterator[tuple[str, bytes]]:
    """Bodies that are valid, about things that are nowhere: every name in them is new."""
    name = f"junk-{number}-" + "x" * 40
    made = pod(name, namespace=name, uid=name, annotations={name: name, "nvidia.com/use-gputype": name * 40})
    yield "/filter", json.dumps({"Pod": made, "NodeNames": [name, f"{name}-2"]}).encode()
    yield "/bind", json.dumps({"PodName": name, "PodNamespace": name, "PodUID": name, "Node": name}).encode()
    yield "/refit", json.dumps(REFIT | {"podUID": name, "podName": name, "nodeName": name, "deviceType": name}).encode()
    review = test_bodies.review("CREATE")
    review["request"] |= {"uid": name, "namespace": name, "name": name, "dryRun": True, "object": made}
    yield "/webhook", json.dumps(review).encode()
    yield "/webhook", name.encode()
    yield f"/{name}", b""


OURS = [
    tracemalloc.Filter(True, f"*/main/{name}/*") for name in ("accounting", "scheduler_ext", "hami_platform/domain")
]


def kept() -> int:
    """Bytes that the product keeps now; the simulated API server keeps its own objects."""
    gc.collect()
    found = tracemalloc.take_snapshot().filter_traces(OURS)
    return sum(one.size for one in found.statistics("filename"))


def test_junk_leaves_nothing_in_memory(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events._recent, "_size", 10)  # what is bounded, so low that it is full
    monkeypatch.setattr(loading._Same, "MOST", 10)
    monkeypatch.setattr(traces.Hopeless, "MOST", 10)

    def round_of(start: int) -> int:
        for number in range(start, start + 25):
            for path, body in junk(number):
                call(path, body)
        world.flush()
        return kept()

    with listening():
        tracemalloc.start()
        try:
            round_of(0)  # so that tables have their buckets
            first = round_of(1000)
            grown = round_of(2000) - first
        finally:
            tracemalloc.stop()
    assert grown < 25_000  # one annotation of each pod would be twice that
