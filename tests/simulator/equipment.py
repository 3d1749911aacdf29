"""What the simulator's tests share: objects with defaults, a scripted HTTP peer, waiting by polling."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, TypeVar

from hami_platform.simulator import client

Obj = dict[str, Any]
T = TypeVar("T")
CAPTURED = Path(__file__).parents[1] / "golden" / "captured"


def captured(name: str) -> Any:
    """A body that a real control plane sent."""
    return json.loads((CAPTURED / name).read_text())


def form(value: Any) -> Any:
    """Keys in order and types of leaves: what two bodies must share to be the same on the wire."""
    if isinstance(value, dict):
        return {key: form(item) for key, item in value.items()}
    if isinstance(value, list):
        return [form(item) for item in value]
    return type(value).__name__


def make_pod(name: str, namespace: str = "default", *, gpus: int | None = 1, **spec: Any) -> Obj:
    """A pod that asks for shares of one GPU, with one CPU."""
    limits = {} if gpus is None else {"nvidia.com/gpu": str(gpus)}
    container = {"name": "c", "image": "fake", "resources": {"limits": limits, "requests": {"cpu": "1"}}}
    meta = {"name": name, "namespace": namespace, **spec.pop("metadata", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def make_node(name: str, *, gpus: int = 8, **parts: Any) -> Obj:
    """A ready node."""
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    ready = {"type": "Ready", "status": "True"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}, **parts.pop("metadata", {})},
        "spec": parts.pop("spec", {}),
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def wait_for(probe: Callable[[], T], what: str = "the condition", timeout_s: float = 20.0) -> T:
    """The first truthy value of the probe; fails with `what` after the timeout."""
    end = time.monotonic() + timeout_s
    while True:
        found = probe()
        if found:
            return found
        assert time.monotonic() < end, f"{what} did not come; last seen: {found!r}"
        time.sleep(0.01)


class Cluster:
    """A client with the few calls that tests repeat."""

    def __init__(self, url: str, **options: Any) -> None:
        self.api = client.Client(url, agent="kubectl/v1.36.3", **options)

    def create_pod(self, *args: Any, **kwargs: Any) -> Obj:
        """Create a pod made by `make_pod`."""
        body = make_pod(*args, **kwargs)
        return self.api.create(client.path_of("pods", body["metadata"]["namespace"]), body)

    def create_node(self, *args: Any, **kwargs: Any) -> Obj:
        """Create a node made by `make_node`."""
        return self.api.create(client.path_of("nodes"), make_node(*args, **kwargs))

    def pod(self, name: str, namespace: str = "default") -> Obj:
        """Read a pod."""
        return self.api.get(client.path_of("pods", namespace, name))

    def condition(self, name: str, kind: str = "PodScheduled") -> Obj:
        """One condition of a pod; {} when it has none."""
        found = self.pod(name).get("status", {}).get("conditions") or []
        return next((item for item in found if item["type"] == kind), {})

    def events(self, name: str, reason: str) -> list[Obj]:
        """The events about a pod with a reason."""
        selector = f"involvedObject.name={name},reason={reason}"
        found: list[Obj] = self.api.call("GET", "/api/v1/namespaces/default/events", query={"fieldSelector": selector})[
            "items"
        ]
        return found


Script = Callable[[str, Obj], Any]
"""(path, decoded body) -> an answer to send as JSON, an int as status, or bytes as they are; None hangs up."""


class Peer:
    """A scripted extender or webhook: answers by a function and remembers what it was asked."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.calls: list[tuple[str, Obj, dict[str, str]]] = []
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"peer": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign,assignment]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Peer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def asked(self, path: str) -> list[Obj]:
        """The bodies that came to a path."""
        with self.lock:
            return [body for found, body, _ in self.calls if found.partition("?")[0] == path]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 20
    peer: ClassVar[Peer]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.peer.lock:
            self.peer.calls.append((self.path, body, dict(self.headers)))
        answer = self.peer.script(self.path.partition("?")[0], body)
        if answer is None:
            self.close_connection = True
            return
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(answer if isinstance(answer, int) else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""
