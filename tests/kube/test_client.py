"""The client against a real HTTP server.

| what happens | a read | a write |
|---|---|---|
| refused connection | Unreachable | Unreachable |
| hangs up | sent once more | Ambiguous, sent once |
| time-out, 5xx, unreadable | Ambiguous | Ambiguous, sent once |
| 4xx | its own class | its own class |
"""

from __future__ import annotations

import json
import socket
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from hami_platform.kube import calls, client, errors
from tests.kube import stub

GET = calls.pod_get(namespace="nlp", name="p")
WRITE = calls.pod_annotate(namespace="nlp", name="p", annotations={"k": "v"}, uid="u1")
POD = {"metadata": {"name": "p", "uid": "u1", "annotations": None}, "spec": {"nodeName": "n1"}, "extra": 1}


def test_an_answer_is_decoded_into_the_calls_type(tmp_path: Path) -> None:
    with stub.StubApi(stub.reply(POD)) as api:
        pod = stub.connect(tmp_path, api.url).send(GET)
    assert (pod.metadata.uid, pod.spec.node_name, pod.metadata.annotations) == ("u1", "n1", {})


def test_a_write_carries_its_body_and_content_type(tmp_path: Path) -> None:
    with stub.StubApi(stub.reply(POD)) as api:
        stub.connect(tmp_path, api.url, user_agent="me").send(WRITE)
    seen = api.seen[0]
    assert (seen.method, seen.path) == ("PATCH", "/api/v1/namespaces/nlp/pods/p")
    assert seen.body == {"metadata": {"uid": "u1", "annotations": {"k": "v"}}}
    assert (seen.headers["Content-Type"], seen.headers["User-Agent"]) == ("application/merge-patch+json", "me")


@pytest.mark.parametrize(
    "code,reason,kind",
    [
        (400, "BadRequest", errors.ApiError),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Unauthorized),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", errors.Conflict),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Unprocessable),
        (429, "TooManyRequests", errors.Throttled),
    ],
)
def test_a_refusal_is_an_answer_with_its_reason(
    tmp_path: Path, code: int, reason: str, kind: type[errors.ApiError]
) -> None:
    with stub.StubApi(stub.refuse(code, reason, "because")) as api, pytest.raises(kind) as caught:
        stub.connect(tmp_path, api.url).send(WRITE)
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.reason, caught.value.message) == (code, reason, "because")


def test_an_object_that_exists_differs_from_a_failed_precondition() -> None:
    assert errors.Conflict(409, "AlreadyExists", "").already_exists
    assert not errors.Conflict(409, "Conflict", "").already_exists


def test_the_server_says_when_to_come_back(tmp_path: Path) -> None:
    answer = stub.reply({"kind": "Status", "reason": "TooManyRequests"}, 429, Retry_After="7")
    with stub.StubApi(answer) as api, pytest.raises(errors.Throttled) as caught:
        stub.connect(tmp_path, api.url).send(GET)
    assert caught.value.retry_after_s == 7


def test_an_error_that_is_no_status_shows_its_text(tmp_path: Path) -> None:
    with stub.StubApi(stub.reply(b"404 page not found", 404)) as api, pytest.raises(errors.NotFound, match="page not"):
        stub.connect(tmp_path, api.url).send(GET)


@pytest.mark.parametrize("answer", [stub.reset, stub.silent, stub.refuse(500, "InternalError"), stub.reply(b"{")])
def test_a_write_of_unknown_outcome_is_ambiguous_and_never_repeated(tmp_path: Path, answer: stub.Answer) -> None:
    with stub.StubApi(answer, stub.reply(POD)) as api, pytest.raises(errors.Ambiguous):
        stub.connect(tmp_path, api.url, timeout_s=0.3).send(WRITE)
    assert len(api.seen) == 1


def test_a_read_on_a_broken_connection_is_sent_once_more(tmp_path: Path) -> None:
    with stub.StubApi(stub.reset, stub.reply(POD)) as api:
        assert stub.connect(tmp_path, api.url).send(GET).metadata.name == "p"
    with stub.StubApi(stub.reset, stub.reset) as api, pytest.raises(errors.Ambiguous):
        stub.connect(tmp_path, api.url).send(GET)
    assert len(api.seen) == 2


def test_a_refused_connection_was_certainly_not_sent(tmp_path: Path) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound, not listening
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(errors.Unreachable):
            stub.connect(tmp_path, url).send(WRITE)


def test_a_server_that_does_not_speak_tls_got_nothing(tmp_path: Path) -> None:
    with stub.StubApi() as api, pytest.raises(errors.Unreachable):
        stub.connect(tmp_path, api.url.replace("http:", "https:")).send(WRITE)


def test_an_unreadable_object_names_the_field(tmp_path: Path) -> None:
    answer = stub.reply({"spec": {"nodeName": 7}})
    with stub.StubApi(answer) as api, pytest.raises(errors.Ambiguous, match="nodeName"):
        stub.connect(tmp_path, api.url).send(GET)


def test_a_call_beyond_our_own_limit_fails_instead_of_waiting_too_long(tmp_path: Path) -> None:
    with stub.StubApi(stub.reply(POD)) as api:
        kube = stub.connect(tmp_path, api.url, qps=0.001, burst=1, timeout_s=1)
        kube.send(GET)
        with pytest.raises(errors.Throttled, match="ClientThrottled"):
            kube.send(GET)
    assert len(api.seen) == 1


def test_a_token_is_sent(tmp_path: Path) -> None:
    with stub.StubApi(stub.reply(POD)) as api:
        config = client.Config(kubeconfig=stub.kubeconfig(tmp_path, api.url, token="s3cret"))
        client.KubeClient(config).send(GET)
    assert api.seen[0].headers["authorization"] == "Bearer s3cret"


def plugin(folder: Path) -> dict[str, Any]:
    """The user of an exec plugin that gives t1, t2 and so on, each expired already."""
    counter, script = folder / "count", folder / "plugin"
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "t@", "expirationTimestamp": "2020-01-01T00:00:00Z"},
    }
    script.write_text(
        f"#!/bin/sh\necho x >> {counter}\nn=$(wc -l < {counter})\necho '{json.dumps(credential)}' | sed s/@/$n/\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script), "interactiveMode": "Never"}
    }


def tokens(api: stub.StubApi) -> list[str]:
    return [seen.headers["authorization"] for seen in api.seen]


def test_an_expired_token_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CREDENTIALS_S", 0.0)
    with stub.StubApi(stub.reply(POD), stub.reply(POD)) as api:
        kube = client.KubeClient(client.Config(kubeconfig=stub.kubeconfig(tmp_path, api.url, **plugin(tmp_path))))
        kube.send(GET)
        kube.send(GET)
    assert len(set(tokens(api))) == 2


def test_credentials_are_worked_out_once_a_second_and_again_when_they_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CREDENTIALS_S", 3600.0)
    refusal = stub.reply({"kind": "Status", "message": "who are you"}, 401)
    with stub.StubApi(stub.reply(POD), refusal, stub.reply(POD)) as api:
        kube = client.KubeClient(client.Config(kubeconfig=stub.kubeconfig(tmp_path, api.url, **plugin(tmp_path))))
        kube.send(GET)
        with pytest.raises(errors.ApiError):
            kube.send(GET)
        kube.send(GET)
    first, second, third = tokens(api)
    assert first == second != third


def test_a_missing_kubeconfig_is_the_operators_fault(tmp_path: Path) -> None:
    with pytest.raises(errors.Misconfigured):
        client.KubeClient(client.Config(kubeconfig=str(tmp_path / "none")))


def test_the_token_of_a_token_review_is_not_shown() -> None:
    assert "s3cret" not in repr(calls.token_review(token="s3cret"))


WATCH = calls.pods().watch(revision="5", timeout_s=60)
LINE = {"type": "ADDED", "object": {"metadata": {"name": "p"}}}


def test_a_watch_yields_lines_as_they_come_and_ends_with_the_server(tmp_path: Path) -> None:
    half = json.dumps(LINE).encode() + b"\n" + json.dumps(LINE).encode()[:9]
    rest = json.dumps(LINE).encode()[9:] + b"\n"
    with stub.StubApi(stub.lines(half, rest)) as api:
        got = [line.type for line in stub.connect(tmp_path, api.url).watch(WATCH, idle_s=5)]
    assert got == ["ADDED", "ADDED"]


@pytest.mark.parametrize("then", ["cut", "hang"])
def test_a_cut_or_silent_watch_ends_quietly(tmp_path: Path, then: str) -> None:
    with stub.StubApi(stub.lines(LINE, then=then)) as api:
        got = list(stub.connect(tmp_path, api.url).watch(WATCH, idle_s=0.3))
    assert len(got) == 1


def test_closing_a_watch_wakes_the_thread_that_reads_it(tmp_path: Path) -> None:
    with stub.StubApi(stub.lines(LINE, then="hang")) as api:
        stream = stub.connect(tmp_path, api.url).watch(WATCH, idle_s=60)
        got: list[object] = []
        reader = threading.Thread(target=lambda: got.extend(stream))
        reader.start()
        assert api.hanging.wait(5)
        stream.close()
        reader.join(5)
        assert not reader.is_alive()
        stream.close()
    assert len(got) == 1


def test_a_closed_watch_yields_nothing(tmp_path: Path) -> None:
    with stub.StubApi(stub.lines(LINE)) as api:
        stream = stub.connect(tmp_path, api.url).watch(WATCH, idle_s=5)
        stream.close()
        assert list(stream) == []


def test_a_watch_line_that_is_no_event_is_an_error(tmp_path: Path) -> None:
    with stub.StubApi(stub.lines(b"hello\n")) as api, pytest.raises(errors.Ambiguous):
        list(stub.connect(tmp_path, api.url).watch(WATCH, idle_s=5))


def test_a_watch_may_be_refused(tmp_path: Path) -> None:
    with stub.StubApi(stub.refuse(410, "Expired")) as api, pytest.raises(errors.Gone):
        stub.connect(tmp_path, api.url).watch(WATCH, idle_s=5)


def test_a_whole_object_is_plain_json(tmp_path: Path) -> None:
    with stub.StubApi(stub.reply(POD)) as api:
        assert stub.connect(tmp_path, api.url).send(GET.whole()) == POD
