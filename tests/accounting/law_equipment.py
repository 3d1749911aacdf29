"""What the laws' machine needs around it: an API server without a network in between, processes that die between any
two statements, and a database that is put back to an earlier backup.

The API server is the simulated one, so its preconditions are the real ones. Must not know: what should hold.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from django.apps import apps
from django.db import connection, transaction

from accounting import ledger, live_view
from accounting.services import placements, wake
from hami_platform import env
from hami_platform.kube import calls, errors, objects
from hami_platform.simulator import client as simulated
from hami_platform.simulator.api import httpd
from hami_platform.simulator.api.types import Request
from hami_platform.simulator.apiserver import ApiServer
from scheduler_ext import binder, node_queue
from tests.accounting import kube_objects

T = TypeVar("T")
Object = dict[str, Any]
PODS = "/api/v1/namespaces/nlp/pods"


class Killed(BaseException):
    """The process died here. Nothing in it may answer, so this is no Exception."""


class Steps:
    """Counts what a process does one by one: its statements and its calls. At a chosen one it dies, or another process
    acts first."""

    def __init__(self) -> None:
        self._dies_in: int | None = None
        self._yields_in: int | None = None
        self._meanwhile: Callable[[], None] = lambda: None
        self.died = False

    @contextlib.contextmanager
    def fate(
        self, dies_in: int | None = None, yields_in: int | None = None, meanwhile: Callable[[], None] | None = None
    ) -> Iterator[None]:
        """The block's process dies after so many steps; after so many pauses another one acts. None: never."""
        self.died = False
        self._dies_in, self._yields_in, self._meanwhile = dies_in, yields_in, meanwhile or (lambda: None)
        checked = ledger.breaker.check
        ledger.breaker.check = lambda: (self.pause(), checked())[1]  # type: ignore[method-assign, func-returns-value]
        try:
            with connection.execute_wrapper(self._statement):
                yield
        finally:
            ledger.breaker.check = checked  # type: ignore[method-assign]
            self._dies_in = self._yields_in = None

    def _statement(self, execute: Callable[..., T], sql: str, params: Any, many: bool, context: Any) -> T:
        result = execute(sql, params, many, context)
        self.step()
        return result

    def step(self) -> None:
        """One thing was done."""
        if self._dies_in is None:
            return
        self._dies_in -= 1
        if self._dies_in <= 0:
            self._dies_in, self.died = None, True
            if connection.connection is not None:
                connection.connection.rollback()  # as the database does; SQLite waits for cursors to be collected
            connection.close()
            raise Killed

    def pause(self) -> None:
        """Between two things, with nothing locked: others may act here."""
        if self._yields_in is None or connection.in_atomic_block:
            return
        self._yields_in -= 1
        if self._yields_in < 0:
            self._yields_in = None
            dies_in, self._dies_in = self._dies_in, None  # the other one lives
            self._meanwhile()
            self._dies_in = dies_in


@dataclass
class Network:
    """What becomes of the next Binding: ok, lost (done, no answer), late (no answer, done some time later), never,
    refused. `down`: after that nothing reaches the API server."""

    binding: str = "ok"
    down: bool = False
    late: list[Request] = field(default_factory=list)
    old_lists: list[bytes] = field(default_factory=list)
    stale: int | None = None


class DirectApi:
    """The platform's port to the API server, by a function call."""

    def __init__(self, server: ApiServer, network: Network, steps: Steps) -> None:
        self._server, self._network, self._steps = server, network, steps

    def send(self, call: calls.KubeCall[T], *, timeout_s: float | None = None) -> T:
        """As the client's."""
        self._steps.pause()
        answer = self._carried(request(call.method, call.path, call.query, call.body, call.content_type))
        self._steps.step()
        return objects.decode(answer, call.answer)

    def watch(self, call: calls.KubeCall[T], *, idle_s: float) -> Any:
        """The machine shows events itself."""
        raise NotImplementedError

    def _carried(self, asked: Request) -> bytes:
        network = self._network
        if network.down:
            raise errors.Unreachable("no route")
        if asked.path.endswith("/binding"):
            return self._binding(asked)
        if asked.path == "/api/v1/pods" and network.stale is not None and network.old_lists:
            return network.old_lists[network.stale % len(network.old_lists)]
        return self.answer(asked)

    def _binding(self, asked: Request) -> bytes:
        fate, self._network.binding = self._network.binding, "ok"
        if fate == "refused":
            raise errors.ApiError(403, "Forbidden", "no")
        if fate == "ok":
            return self.answer(asked)
        if fate == "late":
            self._network.late.append(asked)
        elif fate.startswith("lost"):
            self.answer(asked)
        self._network.down = fate.endswith("and down")
        raise errors.Ambiguous("timed out")

    def answer(self, asked: Request) -> bytes:
        """The server's answer. Raises kube errors."""
        try:
            answer = self._server._answer(asked)
        except httpd.HangUp as fault:
            raise errors.Ambiguous("hung up") from fault
        if answer.status >= 400:
            status = msgspec.json.decode(answer.body)
            raise errors.refused(answer.status, status.get("reason", ""), status.get("message", ""))
        return bytes(answer.body)

    def call(self, method: str, path: str, body: Object | None = None, media: str = calls.JSON) -> Object:
        """What people, kubelets and other schedulers do."""
        found: Object = msgspec.json.decode(self.answer(request(method, path, (), body, media)))
        return found

    def merge(self, path: str, body: Object) -> Object:
        """A merge patch."""
        return self.call("PATCH", path, body, simulated.MERGE_PATCH)


def request(
    method: str, path: str, query: tuple[tuple[str, str], ...], body: Mapping[str, Any] | None, media: str
) -> Request:
    """One request as the server reads it."""
    data = b"" if body is None else msgspec.json.encode(body)
    path, _, more = path.partition("?")
    return Request(method, unquote(path), dict(query) | dict(parse_qsl(more)), {"content-type": media}, data)


class Process:
    """What one process of the platform remembers: its View, its binder, what it has refused, how far it has read."""

    def __init__(self, api: DirectApi) -> None:
        self._api = api
        self.start()

    def start(self) -> None:
        """With an empty memory."""
        self.view: live_view.LiveView | None = None
        self.freed = wake.Freed()
        self._refusals = placements._Refusals()
        with env.override(node_lock_retry_timeout_s=0.0):
            self.binder = binder.Binder(self._api, kube_objects.CONFIG, node_queue.NodeQueue(4))

    @contextlib.contextmanager
    def acting(self) -> Iterator[None]:
        """The block runs in this process."""
        cluster = ledger.cluster_id()
        before, refusals = live_view._views.get(cluster), placements._refusals
        live_view._views[cluster] = self.view or live_view.LiveView(cluster)
        placements._refusals = self._refusals
        try:
            yield
        except BaseException:
            self.start()  # died, or stopped by a fault that it does not expect
            raise
        else:
            self.view = live_view._views[cluster]
        finally:
            placements._refusals = refusals
            live_view._views.pop(cluster, None)
            if before is not None:
                live_view._views[cluster] = before


class Backup:
    """All rows of the ledger's tables as they were, kept in tables beside them."""

    def __init__(self) -> None:
        models = {
            model._meta.db_table: model._meta.pk.column for model in apps.get_app_config("accounting").get_models()
        }
        self._tables = [name for name in models if "user" not in name]
        self._numbered = [name for name in self._tables if models[name] == "id"]
        with transaction.atomic(), connection.cursor() as cursor:
            for name in self._tables:
                cursor.execute(f"DROP TABLE IF EXISTS backup_{name}")
                cursor.execute(f"CREATE TABLE backup_{name} AS SELECT * FROM {name}")  # noqa: S608

    def restore(self) -> None:
        """The rows are as they were, and the next keys those that come after them."""
        with transaction.atomic(), connection.cursor() as cursor:
            for name in self._tables:
                cursor.execute(f"DELETE FROM {name}")  # noqa: S608
            for name in self._tables:
                cursor.execute(f"INSERT INTO {name} SELECT * FROM backup_{name}")  # noqa: S608
            for name in self._numbered:
                cursor.execute(f"SELECT COALESCE(MAX(id), 0) FROM {name}")  # noqa: S608
                self._turn_back_keys(cursor, name, cursor.fetchone()[0])

    @staticmethod
    def _turn_back_keys(cursor: Any, name: str, last: int) -> None:
        if connection.vendor == "sqlite":
            cursor.execute("UPDATE sqlite_sequence SET seq = %s WHERE name = %s", (last, name))
        else:
            cursor.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), %s, false)", (name, last + 1))

    def drop(self) -> None:
        """Leave nothing behind."""
        with connection.cursor() as cursor:
            for name in self._tables:
                cursor.execute(f"DROP TABLE IF EXISTS backup_{name}")
