"""The platform's processes over one database, any number of each role, and what may be done to them.

They are started as the documentation says, with production's time limits. Must not know: what tests assert.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.cluster import processes

ROOT = Path(__file__).resolve().parents[2]
LISTENERS = ("extender", "webhook", "web")
START_S = 90
_CELERY = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "hami_platform"]
_COMMANDS = {
    "watcher": [sys.executable, "manage.py", "watch"],
    "worker": [*_CELERY, "worker", "--loglevel=INFO"],
    "beat": [*_CELERY, "beat", "--loglevel=INFO"],
}


class Member:
    """One process of a role, with all that it starts."""

    def __init__(self, role: str, port: int, process: processes.Process, authority: Path) -> None:
        self.role, self.port, self.process = role, port, process
        self._authority = authority

    def start(self) -> None:
        """Start it, for the first time or again, on the same port."""
        self.process.start()

    def wait(self) -> None:
        """Until a listener says that it is ready; of the others only that they live."""
        ready = self.ready if self.role in LISTENERS else self.process.alive
        self.process.wait_until(ready, START_S)

    def kill(self) -> None:
        """kill -9, children included."""
        self.process.kill()

    def pause(self) -> None:
        """SIGSTOP, children included: it holds what it holds, and says nothing."""
        self.process.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.process.resume()

    def ready(self) -> bool:
        """Whether /readyz says so; False when nobody listens."""
        try:
            return self.call("GET", "/readyz", timeout_s=5)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def ask(self, path: str, body: Any, *, timeout_s: float = 35) -> Any:
        """The decoded answer to a POST. Raises OSError or http.client.HTTPException when there is none."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, text = self.call("POST", path, data, timeout_s=timeout_s)
        assert status == 200, (status, text[:200])
        return json.loads(text)

    def call(self, method: str, path: str, data: bytes | None = None, *, timeout_s: float = 35) -> tuple[int, bytes]:
        """(status, body). Raises OSError or http.client.HTTPException when there is no answer."""
        with contextlib.closing(self._connection(timeout_s)) as one:
            one.request(method, path, data, {"Content-Type": "application/json"})
            answer = one.getresponse()
            return answer.status, answer.read()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self.role != "webhook":
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        context = ssl.create_default_context(cafile=str(self._authority))
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout_s, context=context)


class Stand:
    """A database, settings, and the processes that were started over them."""

    def __init__(self, folder: Path, database_url: str, **settings: str) -> None:
        self.folder = folder
        self.database_url = database_url
        self._settings = settings
        self._members: list[Member] = []

    def prepare(
        self, *, nodes: Mapping[str, tuple[int, int]] | None = None, limits: Mapping[str, int] | None = None
    ) -> None:
        """Migrate; with nodes (prefix → how many, devices on each) and limits (namespace → MiB) fill as `fill` does."""
        self.manage("migrate", "-v0")
        if nodes:
            spec = json.dumps({"nodes": nodes, "limits": limits or {}})
            self.run(sys.executable, "-m", "tests.chaos.fill", spec)

    def add(self, role: str, many: int = 1, **more: str) -> list[Member]:
        """Start so many processes of a role, with further settings; they may not be ready yet."""
        added = [self._member(role, **more) for _ in range(many)]
        self._members += added
        for one in added:
            one.start()
        return added

    def wait(self) -> None:
        """Until every process is ready."""
        for one in self._members:
            one.wait()

    def of(self, role: str) -> list[Member]:
        """The processes of a role, in the order of their start."""
        return [one for one in self._members if one.role == role]

    @property
    def members(self) -> tuple[Member, ...]:
        """All processes."""
        return tuple(self._members)

    @property
    def authority(self) -> Path:
        """Signs the webhook's certificate."""
        return self.folder / "state" / "tls" / "ca.pem"

    def close(self) -> None:
        """End every process, whatever was done to it."""
        for one in self._members:
            one.kill()

    def manage(self, *arguments: str) -> str:
        """What a management command has printed; a failed one raises."""
        return self.run(sys.executable, "manage.py", *arguments)

    def run(self, *command: str) -> str:
        """What a finished command over this database has printed. Raises AssertionError with all of it."""
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment("tool"), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def environment(self, role: str, **more: str) -> dict[str, str]:
        """Settings as an operator would give them; those of the caller's shell and of the tests do not leak in."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HAMI_")}
        return inherited | {
            "DJANGO_SETTINGS_MODULE": "hami_platform.settings",
            "HAMI_ROLE": role,
            "HAMI_STATE_DIR": str(self.folder / "state"),
            "HAMI_SECRET_KEY": "only for tests",
            "HAMI_DATABASE_URL": self.database_url,
            **self._settings,
            **more,
        }

    def tails(self, lines: int = 15) -> str:
        """The end of every process's log."""
        return "\n".join(f"--- {one.process.name}\n{one.process.tail(lines)}" for one in self._members)

    def _member(self, role: str, **more: str) -> Member:
        (port,) = processes.free_ports(1)
        bind = {f"HAMI_{role.upper()}_BIND": f"127.0.0.1:{port}"} if role in LISTENERS else {}
        name = f"{role}-{len(self.of(role)) + 1}"
        process = processes.Process(
            name,
            _COMMANDS.get(role) or [sys.executable, "manage.py", "serve", "--role", role],
            log=self.folder / f"{name}-{port}.log",
            environment=self.environment(role, **bind, **more),
            directory=ROOT,
            on_parent_death=signal.SIGTERM,  # its children only end with a polite end, or with their parent
        )
        return Member(role, port, process, self.authority)


@contextlib.contextmanager
def standing(folder: Path, database_url: str, **settings: str) -> Iterator[Stand]:
    """A Stand whose processes are gone at the end."""
    one = Stand(folder, database_url, **settings)
    try:
        yield one
    finally:
        one.close()
