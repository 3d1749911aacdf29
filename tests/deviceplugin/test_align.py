"""NUMA alignment: when the scheduler is asked to move a container, what is asked, and what becomes of the answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from deviceplugin import refit, refusals, replicas
from tests.deviceplugin.builders import GPU_A, GPU_B, NODE, pod, row
from tests.deviceplugin.test_allocate import Bench

ASK = refit.Ask("uid-1", "nlp", "train", NODE, 1, "main", "NVIDIA", (GPU_B,))


class Mover:
    """Moves the pod `train` in the cluster, or fails."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.asks: list[refit.Ask] = []
        self.bench: Bench | None = None

    def move(self, ask: refit.Ask) -> None:
        self.asks.append(ask)
        if self.fails:
            raise refit.RefitFailed("AllowedDeviceSetUnmatched")
        assert self.bench is not None
        moved = row(*((uuid, 3000, 30) for uuid in ask.allowed))
        self.bench.cluster.pod("train")["metadata"]["annotations"]["hami.io/vgpu-devices-to-allocate"] = moved


def asking(folder: Path, wish: str | None, mover: Mover | None) -> Bench:
    notes = {} if wish is None else {"hami.io/numa-alignment": wish}
    made = Bench(folder, pod(annotations=notes))
    made.restart(mover=mover)
    if mover:
        mover.bench = made
    return made


@pytest.mark.parametrize("wish", ["strict", " Best-Effort "])
def test_a_pod_that_asks_for_it_is_moved_to_the_cards_that_kubelet_offers(tmp_path: Path, wish: str) -> None:
    mover = Mover()
    made = asking(tmp_path, wish, mover)
    assert made.preferred(f"{GPU_B}-0", f"{GPU_B}-1") == (f"{GPU_B}-0",)
    assert mover.asks == [refit.Ask("uid-train", "nlp", "train", NODE, 0, "main", "NVIDIA", (GPU_B,))]
    (grant,) = made.allocator.allocate([[f"{GPU_B}-0"]])  # type: ignore[misc]
    assert grant.envs["NVIDIA_VISIBLE_DEVICES"] == GPU_B
    assert len(mover.asks) == 1


def test_a_pod_whose_cards_are_on_offer_is_left_alone(tmp_path: Path) -> None:
    mover = Mover()
    assert asking(tmp_path, "strict", mover).preferred(f"{GPU_A}-0", f"{GPU_B}-1") == (f"{GPU_A}-0",)
    assert mover.asks == []


@pytest.mark.parametrize("wish", [None, "sometimes"])
def test_a_pod_that_does_not_ask_is_left_alone(tmp_path: Path, wish: str | None) -> None:
    mover = Mover()
    made = asking(tmp_path, wish, mover)
    assert made.preferred(f"{GPU_B}-0") == ()
    (grant,) = made.allocator.allocate([[f"{GPU_B}-0"]])  # type: ignore[misc]
    assert (grant.envs["NVIDIA_VISIBLE_DEVICES"], mover.asks) == (GPU_A, [])


def test_what_kubelet_passes_to_allocate_counts_where_it_asks_for_no_preference(tmp_path: Path) -> None:
    made = asking(tmp_path, "strict", Mover())
    (grant,) = made.allocator.allocate([[f"{GPU_B}-7"]])  # type: ignore[misc]
    assert grant.envs["NVIDIA_VISIBLE_DEVICES"] == GPU_B


@pytest.mark.parametrize("mover", [Mover(fails=True), None])
def test_strict_fails_the_pod_when_it_cannot_be_moved(tmp_path: Path, mover: Mover | None) -> None:
    made = asking(tmp_path, "strict", mover)
    choice = replicas.Choice((f"{GPU_B}-0",), (), 1)
    for answer in (made.allocator.preferred([choice]), made.allocator.allocate([[f"{GPU_B}-0"]])):
        assert isinstance(answer, refusals.Refusal)
        assert answer.reason is refusals.Reason.NUMA
        assert "pod nlp/train, container main: it asks for strict NUMA alignment" in answer.message
    assert made.record.pods == {}


def test_best_effort_keeps_its_reservation_when_it_cannot_be_moved(tmp_path: Path) -> None:
    made = asking(tmp_path, "best-effort", Mover(fails=True))
    assert made.preferred(f"{GPU_B}-0") == ()
    (grant,) = made.allocator.allocate([[f"{GPU_B}-0"]])  # type: ignore[misc]
    assert grant.envs["NVIDIA_VISIBLE_DEVICES"] == GPU_A


# --- the client ------------------------------------------------------------------------------


class Server:
    """Answers one status and body, and keeps what it was sent."""

    def __init__(self, status: int, body: bytes) -> None:
        self.seen: list[tuple[str, str | None, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.seen.append((self.path, self.headers.get("Authorization"), sent))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def serve() -> Iterator[Callable[[int, bytes], Server]]:
    made: list[Server] = []

    def start(status: int, body: bytes) -> Server:
        made.append(Server(status, body))
        return made[-1]

    yield start
    for server in made:
        server.close()


@pytest.mark.parametrize("suffix", ["", "/", "/refit"])
def test_the_request_is_the_one_hami_defined_and_carries_the_token(
    serve: Callable[[int, bytes], Server], suffix: str
) -> None:
    server = serve(200, b'{"succeeded": true, "containerDevices": "x"}')
    refit.Scheduler(server.url + suffix, lambda: "t0k3n").move(ASK)
    sent = {
        "podUID": "uid-1",
        "podNamespace": "nlp",
        "podName": "train",
        "nodeName": NODE,
        "containerIndex": 1,
        "containerName": "main",
        "deviceType": "NVIDIA",
        "allowedDeviceUUIDs": [GPU_B],
    }
    assert server.seen == [("/refit", "Bearer t0k3n", sent)]


@pytest.mark.parametrize(
    "status, body, reason",
    [
        (200, b'{"succeeded": false, "failureReason": "AllowedDeviceSetUnmatched"}', "^AllowedDeviceSetUnmatched$"),
        (200, b"{}", "gives no reason"),
        (200, b"<html>", "cannot be asked"),
        (200, b"", "cannot be asked"),
        (401, b"", "answers 401"),
        (503, b"", "answers 503"),
    ],
)
def test_anything_but_success_is_a_failure_that_says_why(
    serve: Callable[[int, bytes], Server], status: int, body: bytes, reason: str
) -> None:
    with pytest.raises(refit.RefitFailed, match=reason):
        refit.Scheduler(serve(status, body).url).move(ASK)


def test_a_scheduler_that_is_not_there_is_a_failure(serve: Callable[[int, bytes], Server]) -> None:
    server = serve(200, b"")
    server.close()
    server.close = lambda: None  # type: ignore[method-assign]
    with pytest.raises(refit.RefitFailed, match="cannot be asked"):
        refit.Scheduler(server.url).move(ASK)
