"""A real control plane with thousands of fake nodes, and the platform on it.

Must not know: what is measured.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.cluster import control_plane, kube, nodes, processes, writes
from tests.cluster import platform as platform_processes

PARTS = ("kube-apiserver", "etcd", "kube-scheduler", "kwok", "kube-controller-manager")
DEVICES = 8
_CALLS = re.compile(r'^hami_platform_filter_duration_seconds_count\{verdict="(\w+)"\} (\S+)', re.MULTILINE)
Object = dict[str, Any]


@dataclass
class Ground:
    """The cluster and what runs on it. empty_to_ready_s: from the start of the platform's processes over an empty
    database until its extender was ready."""

    plane: control_plane.ControlPlane
    platform: platform_processes.Platform
    postgres: int
    log: writes.Log
    empty_to_ready_s: float = 0.0

    def agrees(self) -> str:
        """What `manage.py selfcheck` says: every pod recomputed from the API server and compared with the ledger.

        Raises AssertionError with the differences.
        """
        return self.platform.manage("selfcheck").stdout.strip()

    def filter_calls(self) -> dict[str, int]:
        """Calls of /filter so far by verdict."""
        text = str(self.platform.ask("extender", "GET", "/metrics")[1])
        return {verdict: int(float(count)) for verdict, count in _CALLS.findall(text)}

    def revisions(self) -> dict[str, int]:
        """Ledger transactions so far that changed something, by cause."""
        with psycopg.connect(self.platform.database_url) as connection:
            found = connection.execute("SELECT cause, count(DISTINCT revision) FROM accounting_journal GROUP BY cause")
            return dict(found.fetchall())

    @property
    def api(self) -> kube.Kube:
        return self.plane.kube

    def cpu_s(self) -> Mapping[str, float]:
        """Processor time so far of each of our processes, the database and the control plane."""
        ours = {role: self.platform.cpu_s(role) for role in self.platform.roles()}
        database = {"postgres": sum(processes.cpu_s(pid) for pid in processes.family(self.postgres))}
        return ours | database | parts_cpu_s(self.plane)  # type: ignore[operator]


def parts_cpu_s(plane: control_plane.ControlPlane) -> Mapping[str, float]:
    """Processor time so far of the control plane's parts that run."""
    return {name: plane.part(name).cpu_s() for name in PARTS if plane.runs(name)}


def nodes_make(api: kube.Kube, count: int, of: Callable[[str], Object], *, prefix: str = "n") -> float:
    """Make Ready nodes; the seconds it took."""
    began = time.monotonic()
    made = [nodes.ready(of(f"{prefix}{number}")) for number in range(count)]
    kube.at_once(lambda node: api.create("/api/v1/nodes", node), made)
    return time.monotonic() - began


@contextlib.contextmanager
def cluster(folder: Path, binaries: Path) -> Iterator[control_plane.ControlPlane]:
    """A control plane that thousands of nodes do not keep busy."""
    with control_plane.running(folder, binaries, large=True) as plane:
        yield plane


@contextlib.contextmanager
def platform(
    plane: control_plane.ControlPlane, postgres_url: str, redis_url: str, settings: Mapping[str, str] | None = None
) -> Iterator[Ground]:
    """The platform on `plane`, ready; kube-scheduler does not run."""
    began = time.monotonic()
    with platform_processes.running(plane, postgres_url, redis_url, settings) as started:
        kube.eventually("the extender is ready", lambda: _ready(started), within_s=600)
        took = time.monotonic() - began
        plane.stop_scheduler()
        yield Ground(plane, started, _postmaster(postgres_url), writes.Log(plane.audit_log), took)


def _ready(started: platform_processes.Platform) -> bool:
    return all(started.ready(role) for role in platform_processes.LISTENERS)


def _postmaster(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SHOW data_directory").fetchone()
    assert found is not None
    return int(Path(found[0], "postmaster.pid").read_text().split()[0])
