"""Listeners over a filled database, as processes, and what a call costs: time waited, and processor time spent.

Must not know: what is called.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psycopg

ROOT = Path(__file__).resolve().parents[2]
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Size(NamedTuple):
    """A cluster: nodes, devices on each, pods that hold some."""

    nodes: int
    devices: int
    pods: int

    def __str__(self) -> str:
        return f"{self.nodes:,} × {self.devices}, {self.pods:,} pods held"


SMALL, LARGE, DENSE = Size(1000, 8, 4000), Size(5000, 8, 20000), Size(100, 16, 5000)


@dataclass(frozen=True)
class Ground:
    """A filled database and the settings by which processes find it."""

    size: Size
    name: str
    environment: dict[str, str]


def ground(size: Size, name: str, folder: Path, database_url: str, kubeconfig: Path) -> Ground:
    """Fill an empty database."""
    made = empty_ground(size, name, folder, database_url, kubeconfig)
    fill = [sys.executable, "-m", "tests.perf.fill", *map(str, size)]
    subprocess.run(fill, cwd=ROOT, env=made.environment, check=True)
    return made


def empty_ground(size: Size, name: str, folder: Path, database_url: str, kubeconfig: Path) -> Ground:
    """A database with tables and nothing in them."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HAMI_")} | {
        "DJANGO_SETTINGS_MODULE": "hami_platform.settings",
        "HAMI_STATE_DIR": str(folder),
        "HAMI_SECRET_KEY": "only for tests",
        "HAMI_DATABASE_URL": database_url,
        "HAMI_KUBECONFIG": str(kubeconfig),
    }
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment, check=True)
    return Ground(size, name, environment)


@contextlib.contextmanager
def durable(server_url: str) -> Iterator[None]:
    """The server waits for its disk at each commit, as in production; tests elsewhere spare that."""
    names = ("fsync", "full_page_writes")
    with psycopg.connect(server_url, autocommit=True) as connection:
        for name in names:
            connection.execute(f"ALTER SYSTEM SET {name} = on".encode())
        connection.execute("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            for name in names:
                connection.execute(f"ALTER SYSTEM RESET {name}".encode())
            connection.execute("SELECT pg_reload_conf()")


@dataclass(frozen=True)
class Listener:
    """A listener that runs."""

    port: int
    pid: int
    tls: bool

    def connect(self) -> http.client.HTTPConnection:
        if self.tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def cpu_s(self) -> float:
        """Processor time of the listener and its workers so far, background threads included."""
        return sum(_cpu_s(pid) for pid in _family(self.pid))

    def rss_mib(self) -> float:
        """Memory of the largest process: the worker."""
        return max(_rss_mib(pid) for pid in _family(self.pid))


@contextlib.contextmanager
def listener(role: str, over: Ground, *, within_s: float = 120) -> Iterator[Listener]:
    """A listener of this role once it is ready."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    environment = over.environment | {f"HAMI_{role.upper()}_BIND": f"127.0.0.1:{port}"}
    command = [sys.executable, "manage.py", "serve", "--role", role]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=quiet, stderr=quiet) as process:
        served = Listener(port, process.pid, tls=role == "webhook")
        try:
            _ready(served, within_s)
            yield served
        finally:
            process.terminate()


def _ready(served: Listener, within_s: float) -> None:
    until = time.monotonic() + within_s
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(served.connect()) as one:
            one.request("GET", "/readyz")
            if one.getresponse().status == 200:
                return
        if time.monotonic() > until:
            raise AssertionError("the listener did not become ready")
        time.sleep(0.1)


class Figures(NamedTuple):
    """Milliseconds a call: waited for (half of the calls, 99 of 100), and of processor time, all threads together."""

    p50_ms: float
    p99_ms: float
    cpu_ms: float
    calls: int

    def __str__(self) -> str:
        return (
            f"p50 {self.p50_ms:.1f} ms, p99 {self.p99_ms:.1f} ms, processor {self.cpu_ms:.1f} ms ({self.calls} calls)"
        )


def measured(
    served: Listener, path: str, bodies: Sequence[bytes], check: Callable[[bytes], object], *, warm_up: int = 10
) -> Figures:
    """Call one after another over one connection, as kube-scheduler does; the first ones do not count."""
    took = []
    with contextlib.closing(served.connect()) as connection:
        for body in bodies[:warm_up]:
            check(called(connection, path, body))
        cpu_s = served.cpu_s()
        for body in bodies[warm_up:]:
            began = time.perf_counter()
            answer = called(connection, path, body)
            took.append((time.perf_counter() - began) * 1000)
            check(answer)
        cpu_s = served.cpu_s() - cpu_s
    return figures(took, cpu_s)


def figures(took_ms: Sequence[float], cpu_s: float) -> Figures:
    """What calls that took so long come to."""
    cuts = statistics.quantiles(took_ms, n=100)
    return Figures(cuts[49], cuts[98], cpu_s * 1000 / len(took_ms), len(took_ms))


def called(connection: http.client.HTTPConnection, path: str, body: bytes) -> bytes:
    """The answer to one call."""
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    return connection.getresponse().read()


def disk(folder: Path, writes: int = 200) -> str:
    """What the disk takes for 8 KiB that must last, as one commit of a database waits at least."""
    took = []
    with (folder / "disk").open("wb", buffering=0) as file:
        for _ in range(writes):
            file.write(b"x" * 8192)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1000)
    took.sort()
    return f"p50 {took[writes // 2]:.1f} ms, p99 {took[writes * 99 // 100]:.1f} ms"


def report(text: str) -> None:
    """Say a figure; the load of the machine goes with it, since it explains much."""
    sys.stdout.write(f"\n{text} [load {os.getloadavg()[0]:.1f}]\n")


def _family(pid: int) -> list[int]:
    found = [pid]
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        found += [one for child in children for one in _family(int(child))]
    return found


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _rss_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024
