"""A small scripted API server over real HTTP: each request takes the next answer of the script."""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from hami_platform.kube import client


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class Script(BaseHTTPRequestHandler):
    """What one answer can do. Bodies are JSON values; `lines` make a chunked watch."""

    protocol_version = "HTTP/1.1"
    server: StubApi

    def handle_any(self) -> None:
        parts = urlsplit(self.path)
        size = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(size)) if size else None
        self.server.seen.append(
            Seen(self.command, parts.path, dict(parse_qsl(parts.query)), dict(self.headers.items()), body)
        )
        self.server.script.get(timeout=5)(self)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Quiet."""


Answer = Callable[[Script], None]


def reply(body: Any = None, code: int = 200, **headers: str) -> Answer:
    """A whole answer."""

    def act(script: Script) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        script.send_response(code)
        script.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            script.send_header(name.replace("_", "-"), value)
        script.end_headers()
        script.wfile.write(data)

    return act


def refuse(code: int, reason: str, message: str = "no") -> Answer:
    """A Status object as the API server sends it."""
    return reply({"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}, code)


def reset(script: Script) -> None:
    """Hang up without a word."""
    script.connection.shutdown(socket.SHUT_RDWR)
    script.close_connection = True


def silent(script: Script) -> None:
    """Never answer; ends when the stub does."""
    script.server.released.wait()
    script.close_connection = True


def lines(*events: Any, then: str = "end") -> Answer:
    """A watch: one chunk an event. then: "end" properly, "cut" the connection, or "hang" open."""

    def act(script: Script) -> None:
        script.send_response(200)
        script.send_header("Transfer-Encoding", "chunked")
        script.end_headers()
        for event in events:
            data = event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
            script.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        if then == "end":
            script.wfile.write(b"0\r\n\r\n")
        elif then == "hang":
            script.server.hanging.set()
            script.server.released.wait()
        script.close_connection = True

    return act


class StubApi(ThreadingHTTPServer):
    """`with StubApi(reply(...), ...) as stub:`; more answers with `stub.add`."""

    daemon_threads = True

    def __init__(self, *answers: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Script)
        self.seen: list[Seen] = []
        self.script: queue.Queue[Answer] = queue.Queue()
        self.hanging = threading.Event()
        self.released = threading.Event()
        self.add(*answers)

    def add(self, *answers: Answer) -> None:
        for answer in answers:
            self.script.put(answer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> StubApi:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is part of the test."""


def kubeconfig(folder: Any, url: str, **user: Any) -> str:
    """A kubeconfig file (JSON is YAML) for this server."""
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return str(path)


def connect(folder: Any, url: str, **config: Any) -> client.KubeClient:
    """A real client for this server."""
    return client.KubeClient(client.Config(kubeconfig=kubeconfig(folder, url), **config))
