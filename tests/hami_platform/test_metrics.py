from __future__ import annotations

import contextlib
import http.client
import socket
import time
import uuid
from collections.abc import Iterator

import pytest

from hami_platform import env_values, metrics


def test_a_registered_metric_is_shown_with_its_value() -> None:
    name = f"test_{uuid.uuid4().hex}_seconds"
    metrics.gauge(name, "for a test", ("node",)).labels(node="n1").set(3)
    assert f'{name}{{node="n1"}} 3.0' in metrics.render().decode()


def test_a_name_is_taken_once() -> None:
    name = f"test_{uuid.uuid4().hex}_total"
    metrics.counter(name, "for a test")
    with pytest.raises(ValueError, match="Duplicated"):
        metrics.counter(name, "for a test")


def free_address() -> env_values.Address:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return env_values.Address("127.0.0.1", one.getsockname()[1])


def read(address: env_values.Address, method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address.host, address.port, timeout=5)
    try:
        connection.request(method, "/metrics")
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_they_are_read_over_plain_http_and_nothing_else_is() -> None:
    address = free_address()
    listening = metrics.serve(address)
    try:
        status, body = read(address)
        assert status == 200
        assert b"process_cpu_seconds_total" in body
        assert read(address, "POST")[0] == 405
    finally:
        listening.shutdown()
        listening.server_close()


@contextlib.contextmanager
def shown() -> Iterator[env_values.Address]:
    address = free_address()
    listening = metrics.serve(address)
    try:
        yield address
    finally:
        listening.shutdown()
        listening.server_close()


@pytest.mark.parametrize("begun", [b"", b"GET /metrics HTTP/1.1\r\nX-Slow: "])
def test_a_reader_that_never_ends_its_question_is_cut_off(monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    monkeypatch.setattr(metrics, "READ_S", 0.2)
    with shown() as address, socket.create_connection((address.host, address.port), timeout=20) as slow:
        slow.sendall(begun)
        assert slow.recv(1) == b""


def test_more_readers_at_once_than_threads_are_hung_up_on_and_the_listener_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "MOST_READERS", 2)
    with shown() as address:
        with contextlib.ExitStack() as held:
            for _ in range(2):
                held.enter_context(socket.create_connection((address.host, address.port), timeout=20))
            with socket.create_connection((address.host, address.port), timeout=20) as third:
                assert third.recv(1) == b""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with contextlib.suppress(OSError, http.client.HTTPException):
                assert read(address)[0] == 200
                return
        raise AssertionError("nobody is answered any more")


def test_of_two_workers_the_second_shows_them_when_the_first_is_gone() -> None:
    address = free_address()
    first = metrics.serve(address)
    metrics.serve_when_free(address, retry_s=0.02)
    first.shutdown()
    first.server_close()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            assert read(address)[0] == 200
            return
    raise AssertionError("nobody took the address over")


def test_a_figure_that_cannot_be_made_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_providers", {})

    def broken() -> Iterator[str]:
        yield from metrics.family("half_made", "x", [("", 1)])
        raise RuntimeError("no")

    metrics.provide("broken", broken)
    metrics.provide("sound", lambda: metrics.family("sound_bytes", "x", [(metrics.labels(a='q"\\\n'), 2)]))
    text = metrics.render().decode()
    assert "half_made" not in text
    assert 'sound_bytes{a="q\\"\\\\\\n"} 2\n' in text
    assert 'hami_platform_metrics_failures_total{of="broken"} 1.0' in text


def test_half_a_character_does_not_cost_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_providers", {})
    metrics.provide("odd", lambda: metrics.family("odd_bytes", "x", [(metrics.labels(a="\ud800"), 2)]))
    assert b'odd_bytes{a="?"} 2' in metrics.render()
