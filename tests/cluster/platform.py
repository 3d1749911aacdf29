"""Our own processes against a control plane: the same commands, settings and credentials as in production.

PostgreSQL and Redis come as URLs; a database is made for the run and dropped after it. Every process can
be stopped, killed and started again by role.
Must not know: what tests assert.
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
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import yaml
from psycopg import conninfo, sql

from tests.cluster import access, control_plane, kube, ledger, processes

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = "e2e"
LISTENERS = ("extender", "webhook")
ROLES = (*LISTENERS, "watcher", "worker", "beat")
SCHEDULER_NAME = "hami-scheduler"
SCHEDULER = access.BASE / "kube-scheduler.yaml"
# The account of each process; a tool (the probe, management commands) runs where the worker runs.
ACCOUNTS = {role: role for role in ROLES} | {"extender": "scheduler", "tool": "worker"}


class Platform:
    """The platform's processes by role, and the ways in which a test may disturb them.

    settings: environment beyond what every run sets.
    """

    def __init__(
        self,
        plane: control_plane.ControlPlane,
        postgres_url: str,
        redis_url: str,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.plane = plane
        self._more = dict(settings or {})
        self.folder = plane.folder / "platform"
        self.logs = self.folder / "log"
        self.logs.mkdir(parents=True)
        self._server_url = postgres_url
        self._database = f"e2e_{uuid.uuid4().hex[:12]}"
        self._redis_url = redis_url
        self.ports = dict(zip(LISTENERS, processes.free_ports(len(LISTENERS)), strict=True))
        self._processes: dict[str, processes.Process] = {}

    def start(self) -> None:
        """Make the database and the credentials, then start every process and hook them into the cluster."""
        with psycopg.connect(self._server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self._database)))
        access.install(self.plane.kube)
        self._kubeconfigs = {role: self._kubeconfig(account) for role, account in ACCOUNTS.items()}
        self._server = self.plane.authority.server("platform", ["127.0.0.1", "localhost"])
        self._scheduler_client = self.plane.authority.client("extender-client", user="kube-scheduler")
        self.manage("migrate", "--no-input")
        self.ledger = ledger.Ledger(self.environment("tool"), self.logs / "probe.log")
        for role in ROLES:
            self.start_role(role)
        for role in ROLES:
            self.await_role(role)
        self._register()
        self.start_scheduler()

    def start_scheduler(self) -> None:
        """kube-scheduler with this platform as its extender, in place of whichever runs."""
        self.plane.start_scheduler(self._scheduler_configuration())

    @property
    def database_url(self) -> str:
        """Of the processes' database."""
        return conninfo_url(self._server_url, self._database)

    def stop(self) -> None:
        """End every process and drop the database."""
        self.plane.stop_scheduler()
        for process in self._processes.values():
            process.stop()
        if hasattr(self, "ledger"):
            self.ledger.close()
        with psycopg.connect(self._server_url, autocommit=True) as connection:
            drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(self._database))
            connection.execute(drop)

    # Single processes.

    def start_role(self, role: str) -> None:
        """Start one process; it may take a while to become ready."""
        if role not in self._processes:
            self._processes[role] = processes.Process(
                role,
                _command(role),
                log=self.logs / f"{role}.log",
                environment=self.environment(role),
                directory=ROOT,
                # A listener and a worker have children of their own, which only a polite end takes along.
                on_parent_death=signal.SIGTERM,
            )
        self._processes[role].start()

    def roles(self) -> tuple[str, ...]:
        """The processes of this platform."""
        return tuple(self._processes)

    def cpu_s(self, role: str) -> float:
        """Processor time of one process and its children so far, seconds."""
        return self._processes[role].cpu_s()

    def alive(self, role: str) -> bool:
        """Whether the process runs."""
        return self._processes[role].alive()

    def await_role(self, role: str, within_s: float = 60) -> None:
        """Wait until a listener says ready; of the others only that they live."""
        process = self._processes[role]
        process.wait_until((lambda: self.ready(role)) if role in LISTENERS else process.alive, within_s)

    def stop_role(self, role: str) -> None:
        """End one process politely."""
        self._processes[role].stop()

    def kill_role(self, role: str) -> None:
        """kill -9 of one process and its children."""
        self._processes[role].kill()

    @contextlib.contextmanager
    def paused(self, role: str) -> Iterator[None]:
        """A process and its children are stopped by SIGSTOP inside the block."""
        self._processes[role].pause()
        try:
            yield
        finally:
            self._processes[role].resume()

    @contextlib.contextmanager
    def without(self, *roles: str) -> Iterator[None]:
        """These processes are stopped inside the block, and running and ready again after it."""
        for role in roles:
            self.stop_role(role)
        try:
            yield
        finally:
            for role in roles:
                self.start_role(role)
            for role in roles:
                self.await_role(role)

    @contextlib.contextmanager
    def without_database(self) -> Iterator[None]:
        """The database refuses and cuts every connection inside the block; others on the server live on."""
        self._allow_connections(allowed=False)
        try:
            yield
        finally:
            self._allow_connections(allowed=True)
            kube.eventually("the probe has its database again", self.ledger.reachable)

    def ready(self, role: str) -> bool:
        """Whether a listener's /readyz says so. Raises OSError when nobody listens."""
        return self.ask(role, "GET", "/readyz")[0] == 200

    def ask(self, role: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One request to a listener, as kube-scheduler or kube-apiserver would send it: (status, decoded body)."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.ports[role], context=self._tls(), timeout=35)
        with contextlib.closing(connection):
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        try:
            return answer.status, json.loads(text or b"null")
        except ValueError:
            return answer.status, text.decode(errors="replace")

    def manage(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one management command; a failed one raises with its output unless check is off."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment("tool"),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"manage.py {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def log_tails(self, lines: int = 30) -> str:
        """The end of every process's log, for a failed test's report."""
        paths = sorted(self.logs.glob("*.log"))
        return "\n".join(
            f"--- {path.stem}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) for path in paths
        )

    def environment(self, role: str) -> dict[str, str]:
        """The environment of one process. Our own settings of the calling shell do not leak in."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HAMI_", "DJANGO_"))}
        return kept | self._settings(role) | self._more  # type: ignore[operator]

    def _settings(self, role: str) -> Mapping[str, str]:
        return {
            "DJANGO_SETTINGS_MODULE": "hami_platform.settings",
            "HAMI_ROLE": role,
            "HAMI_CLUSTER": CLUSTER,
            "HAMI_DATABASE_URL": self.database_url,
            "HAMI_REDIS_URL": self._redis_url,
            "HAMI_STATE_DIR": str(self.folder / "state"),
            "HAMI_SECRET_KEY": "only-for-acceptance-tests",
            "HAMI_KUBECONFIG": str(self._kubeconfigs[role]),
            "HAMI_SCHEDULER_NAME": SCHEDULER_NAME,
            "HAMI_WEBHOOK_BIND": f"127.0.0.1:{self.ports['webhook']}",
            "HAMI_EXTENDER_BIND": f"127.0.0.1:{self.ports['extender']}",
            "HAMI_TLS_CERT_FILE": str(self._server.certificate),
            "HAMI_TLS_KEY_FILE": str(self._server.key),
            "HAMI_TLS_CLIENT_CA_FILE": str(self.plane.authority.certificate),
            "HAMI_OWNED_KEY_WRITERS": access.PLUGIN_USER,
            "HAMI_POD_NAMESPACE": access.NAMESPACE,
        }

    def _register(self) -> None:
        """Put the product's own webhook configuration into the cluster."""
        text = self.manage(
            "webhook_config",
            "--url",
            f"https://127.0.0.1:{self.ports['webhook']}/webhook",
            "--ca-file",
            str(self.plane.authority.certificate),
        ).stdout
        access.apply(self.plane.kube, text)

    def _kubeconfig(self, account: str) -> Path:
        token = access.token(self.plane.kube, account)
        return self.plane.write_kubeconfig(f"platform-{account}", {"token": token})

    def _scheduler_configuration(self) -> dict[str, Any]:
        """The deployed one, with this run's addresses and credentials and the default profile too."""
        client = self._scheduler_client
        deployed: dict[str, Any] = yaml.safe_load(SCHEDULER.read_text(encoding="utf-8"))
        (extender,) = deployed["extenders"]
        extender |= {
            "urlPrefix": f"https://127.0.0.1:{self.ports['extender']}",
            "enableHTTPS": True,
            "tlsConfig": {
                "caFile": str(self.plane.authority.certificate),
                "certFile": str(client.certificate),
                "keyFile": str(client.key),
            },
        }
        deployed["profiles"].insert(0, {"schedulerName": "default-scheduler"})
        deployed["clientConnection"]["kubeconfig"] = str(self._kubeconfigs["extender"])
        return deployed

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.plane.authority.certificate))
        context.load_cert_chain(self._scheduler_client.certificate, self._scheduler_client.key)
        return context

    def _allow_connections(self, *, allowed: bool) -> None:
        with psycopg.connect(self._server_url, autocommit=True) as connection:
            name = sql.Identifier(self._database)
            connection.execute(
                sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS {}").format(name, sql.Literal(allowed))
            )
            if not allowed:
                cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
                connection.execute(cut, (self._database,))


@contextlib.contextmanager
def running(
    plane: control_plane.ControlPlane,
    postgres_url: str,
    redis_url: str,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Platform]:
    """The whole platform, started and hooked into `plane`; everything ends with the block."""
    platform = Platform(plane, postgres_url, redis_url, settings)
    try:
        platform.start()
        yield platform
    finally:
        platform.stop()


def conninfo_url(server_url: str, database: str) -> str:
    """The URL of another database on the same server."""
    parts = {key: value for key, value in conninfo.conninfo_to_dict(server_url).items() if value is not None}
    parts["dbname"] = database
    user = f"{parts.pop('user', 'postgres')}" + (f":{parts.pop('password')}" if "password" in parts else "")
    host, port, name = parts.pop("host", ""), parts.pop("port", "5432"), parts.pop("dbname")
    if str(host).startswith("/"):
        return f"postgresql://{user}@/{name}?host={host}&port={port}"
    return f"postgresql://{user}@{host}:{port}/{name}"


def _command(role: str) -> list[str]:
    celery = [sys.executable, "-m", "celery", "-A", "hami_platform"]
    commands = {
        "watcher": [sys.executable, "manage.py", "watch"],
        "worker": [*celery, "worker", "--pool=threads", "--concurrency=4", "--loglevel=INFO"],
        "beat": [*celery, "beat", "--loglevel=INFO"],
    }
    return commands.get(role) or [sys.executable, "manage.py", "serve", "--role", role]
