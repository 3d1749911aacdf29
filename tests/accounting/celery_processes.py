"""Worker and beat as processes, on either broker, with the database of the test that runs."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

import redis
from django.db import connection

from tests import servers

ROOT = pathlib.Path(__file__).resolve().parents[2]


def database_url() -> str:
    """The URL of the database that this test uses."""
    name = str(connection.settings_dict["NAME"])
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return urlunsplit(urlsplit(servers.postgres_url())._replace(path=f"/{name}"))


@dataclass
class Installation:
    """One broker, one database, one cluster. `redis` empty: the broker is a folder."""

    folder: pathlib.Path
    database: str
    kubeconfig: str = ""
    redis: str = ""
    more: Mapping[str, str] = field(default_factory=dict)

    @contextlib.contextmanager
    def running(self, role: str, *arguments: str) -> Iterator[pathlib.Path]:
        """`celery worker` or `celery beat` as the documentation says; gives its log. Stopped at the end."""
        log = self.folder / f"{role}.log"
        command = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "hami_platform", role, *arguments]
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, cwd=ROOT, env=self._environ(role), stdout=output, stderr=subprocess.STDOUT
            )
        try:
            yield log
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()

    def _environ(self, role: str) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HAMI_")}
        own = {
            "HAMI_ROLE": role,
            "HAMI_STATE_DIR": str(self.folder / "state"),
            "HAMI_SECRET_KEY": "only for tests",
            "HAMI_DATABASE_URL": self.database,
            "HAMI_KUBECONFIG": self.kubeconfig,
            "HAMI_REDIS_URL": self.redis,
        }
        return {**inherited, **{name: value for name, value in own.items() if value}, **self.more}

    def send(self, *ticks: tuple[str, int, float]) -> None:
        """Put messages into the queue as beat would: (task, how often, seconds until it is too old)."""
        command = [sys.executable, "-W", "ignore", "-c", _SEND, json.dumps(ticks)]
        subprocess.run(command, cwd=ROOT, env=self._environ("beat"), check=True)


_SEND = """
import datetime, json, sys
from hami_platform.celery import app
for task, times, left_s in json.loads(sys.argv[1]):
    expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=left_s)
    for _ in range(times):
        app.send_task(f"accounting.tasks.{task}", expires=expires)
"""


def redis_of_this_worker(url: str) -> str:
    """A database of the Redis server that no other pytest worker uses, emptied."""
    number = 1 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    mine = urlunsplit(urlsplit(url)._replace(path=f"/{number}"))
    with redis.Redis.from_url(mine) as client:
        client.flushdb()
    return mine
