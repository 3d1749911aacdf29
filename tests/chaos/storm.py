"""Extenders as real processes over one PostgreSQL database, and storms of requests on them.

Must not know: what tests assert.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

ROOT = Path(__file__).resolve().parents[2]
START_S = 60


@dataclass
class Extender:
    """One listener with its workers; a process group of its own."""

    port: int
    process: subprocess.Popen[bytes]

    def ask(self, path: str, body: Any, *, timeout_s: float = 35) -> Any:
        """The decoded answer. Raises OSError or http.client.HTTPException when there is none."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)) as one:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            one.request("POST", path, data, {"Content-Type": "application/json"})
            answer = one.getresponse()
            text = answer.read()
            assert answer.status == 200, (answer.status, text[:200])
            return json.loads(text)

    def ready(self) -> bool:
        """Whether /readyz says so."""
        try:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)) as one:
                one.request("GET", "/readyz")
                return one.getresponse().status == 200
        except OSError:
            return False

    def signal(self, number: int) -> None:
        """To the listener and all its workers."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def environment(folder: Path, database_url: str, **more: str) -> dict[str, str]:
    """Settings as an operator would give them, with production's time limits."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HAMI_")}
    return inherited | {
        "DJANGO_SETTINGS_MODULE": "hami_platform.settings",
        "HAMI_STATE_DIR": str(folder),
        "HAMI_SECRET_KEY": "only for tests",
        "HAMI_DATABASE_URL": database_url,
        **more,
    }


def prepare(folder: Path, database_url: str, *size: int) -> None:
    """Migrate, and fill with nodes × devices and a limit (see `fill`)."""
    settings = environment(folder, database_url)
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=settings, check=True)
    run([sys.executable, "-m", "tests.chaos.fill", *map(str, size)], settings)


def run(command: Sequence[str], settings: dict[str, str]) -> str:
    """What a finished command has printed."""
    return subprocess.run(command, cwd=ROOT, env=settings, check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def extenders(folder: Path, database_url: str, many: int, **more: str) -> Iterator[list[Extender]]:
    """So many ready extenders; all gone at the end, whatever was done to them."""
    started: list[Extender] = []
    try:
        for _ in range(many):
            port = _free_port()
            settings = environment(folder, database_url, HAMI_EXTENDER_BIND=f"127.0.0.1:{port}", **more)
            serve = [sys.executable, "manage.py", "serve", "--role", "extender"]
            with (folder / f"extender-{port}.log").open("wb") as log:
                process = subprocess.Popen(
                    serve, cwd=ROOT, env=settings, stdout=log, stderr=log, start_new_session=True
                )
            started.append(Extender(port, process))
        for one in started:
            _wait_ready(one)
        yield started
    finally:
        for one in started:
            one.signal(signal.SIGKILL)
            one.process.wait()


def _wait_ready(one: Extender) -> None:
    until = time.monotonic() + START_S
    while not one.ready():
        if time.monotonic() > until or one.process.poll() is not None:
            raise AssertionError("an extender did not become ready")
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def pod(name: str, mem: int, namespace: str = "nlp") -> dict[str, Any]:
    """An unbound pod that asks for so many MiB of one device."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mem)}
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {"phase": "Pending"},
    }


def filtered(targets: Sequence[Extender], pods: Sequence[dict[str, Any]], nodes: Sequence[str]) -> list[str]:
    """The node that each pod got ("" = refused), all asking at once, in turn over the extenders. An `Error` is asked
    again at the next extender, as kube-scheduler would later."""
    gate = threading.Barrier(len(pods))

    def one(number: int) -> str:
        gate.wait(30)
        body = {"Pod": pods[number], "Nodes": None, "NodeNames": list(nodes)}
        until = time.monotonic() + 60
        turn = number
        while time.monotonic() < until:
            try:
                answer = targets[turn % len(targets)].ask("/filter", body, timeout_s=10)
            except (OSError, http.client.HTTPException):
                answer = {"Error": "gone"}
            if not answer["Error"]:
                return "".join(answer["NodeNames"] or [])
            turn += 1
            time.sleep(0.05)
        raise AssertionError("no answer for a minute")

    with futures.ThreadPoolExecutor(len(pods)) as pool:
        return list(pool.map(one, range(len(pods))))


def rows(database_url: str, query: str) -> list[tuple[Any, ...]]:
    """What the database says."""
    with psycopg.connect(database_url) as connection:
        return connection.execute(query).fetchall()  # type: ignore[arg-type]  # fixed texts of the tests


HELD = """SELECT coalesce(sum(s.memory_mib), 0), count(DISTINCT p.id) FROM accounting_pod p
JOIN accounting_share s ON s.pod_id = p.id WHERE p.state IN ('reserved', 'binding', 'bound', 'running')"""
