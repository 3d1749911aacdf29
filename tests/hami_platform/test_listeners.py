"""Real listeners in processes of their own, spoken to over real sockets."""

from __future__ import annotations

import contextlib
import http.client
import os
import pathlib
import resource
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from hami_platform import certs, env, listeners

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclass
class Listener:
    """A running listener, its port, and the log lines read so far."""

    process: subprocess.Popen[str]
    port: int
    lines: list[str] = field(default_factory=list)

    def until(self, text: str, times: int = 1) -> str:
        """Read the log up to the line in which `text` stands for the nth time."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            times -= text in line
            if times <= 0:
                return line
        raise AssertionError(f"ended before {text!r}:\n{''.join(self.lines)}")

    def accepts(self, within_s: float = 20) -> None:
        """Wait until connections are accepted, which begins a moment after the line that says so."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except ConnectionRefusedError:
                select.select([], [], [], 0.02)
            else:
                return
        raise AssertionError(f"nobody accepts on {self.port}:\n{''.join(self.lines)}")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def status(self, path: str, context: ssl.SSLContext | None = None) -> int:
        kind = http.client.HTTPConnection if context is None else http.client.HTTPSConnection
        options: dict[str, Any] = {} if context is None else {"context": context}
        connection = kind("127.0.0.1", self.port, timeout=20, **options)
        with contextlib.closing(connection):
            connection.request("GET", path)
            return connection.getresponse().status


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def starting(role: str, state: pathlib.Path, *flags: str, **settings: str) -> Iterator[Listener]:
    port = free_port()
    own = {"HAMI_STATE_DIR": str(state), f"HAMI_{role.upper()}_BIND": f"127.0.0.1:{port}", **settings}
    command = [sys.executable, "manage.py", "serve", "--role", role, "--", *flags]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **own}, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        listener = Listener(process, port)
        try:
            yield listener
        finally:
            if process.poll() is None:
                listener.stop()


@contextlib.contextmanager
def running(role: str, state: pathlib.Path, *flags: str, **settings: str) -> Iterator[Listener]:
    with starting(role, state, *flags, **settings) as listener:
        listener.until("Started worker")
        listener.accepts()
        yield listener


def trusting(folder: pathlib.Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "ca.pem"))


def test_the_webhook_serves_tls_with_a_certificate_of_its_own_and_stops_cleanly(tmp_path: pathlib.Path) -> None:
    with running("webhook", tmp_path) as listener:
        assert listener.status("/no-such-path", trusting(tmp_path / "tls")) == 404
        assert listener.stop() == 0


def test_a_stop_while_the_worker_still_loads_is_obeyed(tmp_path: pathlib.Path) -> None:
    with starting("extender", tmp_path) as listener:
        listener.until("Spawning worker")
        listener.process.send_signal(signal.SIGTERM)
        listener.until("shutdown completed")
        assert not any("Killing" in line for line in listener.lines)


def test_an_extender_with_a_client_authority_refuses_strangers(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "tls"
    authority = certs.authority(folder)
    friend = certs.client(folder, "kube-scheduler")
    with running("extender", tmp_path, HAMI_TLS_CLIENT_CA_FILE=str(authority.cert)) as listener:
        known = trusting(tmp_path / "tls")
        known.load_cert_chain(friend.cert, friend.key)
        assert listener.status("/no-such-path", known) == 404
        with pytest.raises((ssl.SSLError, ConnectionError)):
            listener.status("/no-such-path", trusting(tmp_path / "tls"))


def test_a_webhook_with_a_client_authority_refuses_strangers(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "tls"
    authority = certs.authority(folder)
    friend = certs.client(folder, "kube-apiserver")
    with running("webhook", tmp_path, HAMI_WEBHOOK_CLIENT_CA_FILE=str(authority.cert)) as listener:
        known = trusting(tmp_path / "tls")
        known.load_cert_chain(friend.cert, friend.key)
        assert listener.status("/no-such-path", known) == 404
        with pytest.raises((ssl.SSLError, ConnectionError)):
            listener.status("/no-such-path", trusting(tmp_path / "tls"))


@pytest.mark.parametrize("proof", [{}, {"HAMI_EXTENDER_TOKEN_USERS": "scheduler"}], ids=["nothing", "tokens"])
def test_an_extender_beyond_loopback_needs_a_proof_and_speaks_tls(
    tmp_path: pathlib.Path, proof: dict[str, str]
) -> None:
    given = {"HAMI_STATE_DIR": str(tmp_path), "HAMI_ROLE": "extender", "HAMI_EXTENDER_BIND": ":9444", **proof}
    if not proof:
        with pytest.raises(env.BadSettingsError, match="HAMI_EXTENDER_TOKEN_USERS"):
            env.load(given)
        return
    assert listeners.tls(env.load(given), "extender") is not None


def test_the_console_logs_requests_without_their_query(tmp_path: pathlib.Path) -> None:
    with running("web", tmp_path) as listener:
        assert listener.status("/no-such-path?token=hunter2") == 404
        assert 'path=\\"/no-such-path\\"' in listener.until("request method=GET")
        assert "hunter2" not in "".join(listener.lines)


@pytest.mark.parametrize("role, path", [("web", "/api/v1/quotas"), ("extender", "/filter")])
def test_clients_that_send_a_byte_now_and_then_hold_no_thread(tmp_path: pathlib.Path, role: str, path: str) -> None:
    """Far more of them than threads, some within the head and some within the body; others are answered meanwhile."""
    half = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
    bounds = {"HAMI_LISTENER_THREADS": "2", "HAMI_LISTENER_BODY_TIMEOUT": "3s"}
    with running(role, tmp_path, **bounds) as listener, contextlib.ExitStack() as slow:
        clients = [slow.enter_context(listener.connect()) for _ in range(20)]
        for number, client in enumerate(clients):
            client.sendall(half + (b"Content-Length: 100\r\n\r\n{" if number % 2 else b"X-Slow: "))
        for _ in range(3):
            for client in clients:
                client.sendall(b" ")
            assert listener.status("/no-such-path") == 404
        clients[1].settimeout(30)
        assert clients[1].recv(100).startswith(b"HTTP/1.1 408")


def test_connections_on_which_no_head_comes_make_room_for_others(tmp_path: pathlib.Path) -> None:
    """As many as a worker keeps: silent ones, ones within a head, and idle ones after an answer."""
    bounds = {"HAMI_LISTENER_CONNECTIONS": "4", "HAMI_LISTENER_HEAD_TIMEOUT": "1s"}
    with running("extender", tmp_path, **bounds) as listener:
        for begun in (b"", b"GET / HTTP/1.1\r\nX-Slow: ", b"GET /no-such-path HTTP/1.1\r\nHost: x\r\n\r\n"):
            with contextlib.ExitStack() as idle:
                for _ in range(4):
                    idle.enter_context(listener.connect()).sendall(begun)
                assert listener.status("/no-such-path") == 404, begun


def test_a_hundred_connections_that_stay_open_are_served_by_fewer_threads(tmp_path: pathlib.Path) -> None:
    """As kube-scheduler keeps them after a burst of binds."""
    asked = b"GET /no-such-path HTTP/1.1\r\nHost: x\r\n\r\n"
    with running("extender", tmp_path, HAMI_LISTENER_THREADS="4") as listener, contextlib.ExitStack() as open_:
        connections = [open_.enter_context(listener.connect()) for _ in range(100)]
        for _ in range(2):
            for one in connections:
                one.sendall(asked)
            for one in connections:
                assert answer_of(one).startswith(b"HTTP/1.1 404")


def answer_of(connection: socket.socket) -> bytes:
    """One whole answer: the connection stays open after it."""
    with http.client.HTTPResponse(connection) as answer:
        answer.begin()
        return f"HTTP/1.1 {answer.status} ".encode() + answer.read()


def test_a_worker_keeps_no_more_connections_than_it_may_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    assert listeners.connections(4096) == 768
    assert listeners.connections(10) == 10


def test_a_body_comes_in_whole_in_pieces_and_in_chunks(tmp_path: pathlib.Path) -> None:
    with running("webhook", tmp_path) as listener:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", listener.port, timeout=20, context=trusting(tmp_path / "tls")
        )
        with contextlib.closing(connection):
            for encode in (False, True):
                body = b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u1"}}'
                headers = {"Content-Type": "application/json"}
                headers |= {"Transfer-Encoding": "chunked"} if encode else {"Content-Length": str(len(body))}
                connection.request("POST", "/webhook", iter([body[:40], body[40:]]), headers, encode_chunked=encode)
                answer = connection.getresponse()
                assert answer.status == 200
                assert b'"uid":"u1"' in answer.read()


def test_a_renewed_certificate_is_taken_over_without_a_restart(tmp_path: pathlib.Path) -> None:
    def serial(listener: Listener) -> int:
        pem = ssl.get_server_certificate(("127.0.0.1", listener.port))
        return hash(pem)

    own = tmp_path / "own"
    pair = certs.server(own, "first", ["localhost"])
    files = {"HAMI_TLS_CERT_FILE": str(pair.cert), "HAMI_TLS_KEY_FILE": str(pair.key)}
    with running("webhook", tmp_path, **files) as listener:
        before = serial(listener)
        other = certs.server(own, "second", ["localhost"])
        other.key.replace(pair.key)
        other.cert.replace(pair.cert)
        listener.process.send_signal(signal.SIGHUP)  # what the watch on the files does
        listener.until("Stopped old worker")
        assert serial(listener) != before


def test_workers_end_when_their_parent_is_killed(tmp_path: pathlib.Path) -> None:
    with running("extender", tmp_path) as listener:
        [worker] = (
            pathlib.Path(f"/proc/{listener.process.pid}/task/{listener.process.pid}/children").read_text().split()
        )
        gone = os.pidfd_open(int(worker))
        try:
            listener.process.kill()
            ready, _, _ = select.select([gone], [], [], 30)
            assert ready
        finally:
            os.close(gone)


def test_hami_flags_after_the_dashes_are_settings(tmp_path: pathlib.Path) -> None:
    own = certs.server(tmp_path / "own", "webhook", ["localhost", "127.0.0.1"])
    flags = (f"--cert_file={own.cert}", f"--key_file={own.key}", "--debug", "-v=4")
    with running("webhook", tmp_path, *flags) as listener:
        assert any("--debug has no effect" in line for line in listener.lines)
        assert listener.status("/no-such-path", trusting(own.cert.parent)) == 404


@pytest.mark.parametrize("flags,named", [(["--nope"], "--nope: no such flag"), (["--kube-qps=x"], "HAMI_KUBE_QPS")])
def test_a_wrong_flag_stops_the_start_and_is_named(tmp_path: pathlib.Path, flags: list[str], named: str) -> None:
    command = [sys.executable, "manage.py", "serve", "--role", "webhook", "--", *flags]
    environ = {**os.environ, "HAMI_STATE_DIR": str(tmp_path)}
    ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert named in ended.stderr


def test_a_wrong_setting_stops_every_command_with_one_line(tmp_path: pathlib.Path) -> None:
    environ = {**os.environ, "HAMI_STATE_DIR": str(tmp_path), "HAMI_SCHEDULERNAME": "x"}
    command = [sys.executable, "manage.py", "check"]
    ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (
        2,
        "HAMI_SCHEDULERNAME: no such setting; did you mean HAMI_SCHEDULER_NAME?\n",
    )


@pytest.mark.parametrize("role,expected", [("web", False), ("extender", False), ("webhook", True)])
def test_only_the_webhook_speaks_tls_unasked(tmp_path: pathlib.Path, role: str, expected: bool) -> None:
    settings = env.load({"HAMI_STATE_DIR": str(tmp_path)})
    assert (listeners.tls(settings, role) is not None) is expected


def test_a_certificate_with_the_key_of_another_is_refused(tmp_path: pathlib.Path) -> None:
    one, other = certs.server(tmp_path, "one", ["a"]), certs.server(tmp_path, "other", ["a"])
    with pytest.raises(ssl.SSLError):
        listeners.Tls(one.cert, other.key, None).check()
