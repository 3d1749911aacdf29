"""The simulated parts' own client of an API server: plain calls, watches, and a cache kept by list and watch.

It is not the platform's client (`hami_platform.kube`) on purpose: equipment that shares the code under test cannot
find its faults. Knows nothing of what the objects mean.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from hami_platform.simulator import transport

Obj = dict[str, Any]
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_TIMEOUT_S = 30.0


class ApiFailure(Exception):
    """The server answered with a failure Status; `code` and `reason` are its own."""

    def __init__(self, code: int, status: Any) -> None:
        found: Obj = status if isinstance(status, dict) else {}
        super().__init__(f"{code}: {found.get('message', status)}")
        self.code = code
        self.reason = str(found.get("reason", ""))
        self.message = str(found.get("message", ""))


def path_of(plural: str, namespace: str = "", name: str = "", sub: str = "", *, group: str = "") -> str:
    """The path of a v1 resource, percent-encoded."""
    root = f"/apis/{group}/v1" if group else "/api/v1"
    scope = f"/namespaces/{quote(namespace)}" if namespace else ""
    return root + scope + "".join("/" + quote(part) for part in (plural, name, sub) if part)


class Client:
    """Calls to one API server; safe to use from several threads."""

    def __init__(self, url: str, *, token: str = "", ca_pem: bytes | None = None, agent: str = "simulator") -> None:
        self._url = url
        self._context = ssl.create_default_context(cadata=ca_pem.decode()) if ca_pem else None
        self._headers = {"Accept": "application/json", "User-Agent": agent}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._pool = transport.Pool(url, context=self._context, idle=8)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = "application/json",
        query: dict[str, str] | None = None,
    ) -> Obj:
        """One request. Raises ApiFailure, or transport.TransportError when no answer came."""
        target = f"{path}?{urlencode(query)}" if query else path
        headers = {**self._headers, "Content-Type": media} if body is not None else self._headers
        data = None if body is None else msgspec.json.encode(body)
        answer = self._pool.request(method, target, data, headers, _TIMEOUT_S)
        decoded = msgspec.json.decode(answer.body) if answer.body else {}
        if answer.status >= 400:
            raise ApiFailure(answer.status, decoded)
        found: Obj = decoded
        return found

    def get(self, path: str) -> Obj:
        """GET of one object or a whole list."""
        return self.call("GET", path)

    def create(self, path: str, body: Obj) -> Obj:
        """POST."""
        return self.call("POST", path, body)

    def patch(self, path: str, body: Any, media: str = MERGE_PATCH) -> Obj:
        """PATCH; a merge patch unless said otherwise."""
        return self.call("PATCH", path, body, media=media)

    def delete(self, path: str, *, grace_s: int | None = None, uid: str = "") -> Obj:
        """DELETE with a grace period and a uid precondition."""
        options: Obj = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if uid:
            options["preconditions"] = {"uid": uid}
        return self.call("DELETE", path, options)

    def watch(self, path: str, query: dict[str, str]) -> Watch:
        """Open a watch. Raises ApiFailure or OSError."""
        return Watch(self._url, f"{path}?{urlencode({**query, 'watch': '1'})}", self._headers, self._context)

    def close(self) -> None:
        """Drop idle connections."""
        self._pool.close()


class Watch:
    """A running watch: iterate over (type, object); `close` may come from another thread."""

    def __init__(self, url: str, target: str, headers: dict[str, str], context: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
        self._connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
        if parts.scheme == "https":
            self._connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=context)
        self._connection.request("GET", target, headers=headers)
        self._socket: socket.socket = self._connection.sock
        self._response = self._connection.getresponse()
        if self._response.status != 200:
            body = self._response.read()
            self.close()
            raise ApiFailure(self._response.status, msgspec.json.decode(body or b"{}"))
        self._socket.settimeout(None)

    def __iter__(self) -> Iterator[tuple[str, Obj]]:
        try:
            while line := self._response.readline():
                event = msgspec.json.decode(line)
                yield event["type"], event["object"]
        except (OSError, http.client.HTTPException, ValueError, AttributeError, msgspec.DecodeError):
            return  # cut off; whoever iterates lists again
        finally:
            self.close()

    def close(self) -> None:
        """End the watch."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # closed by the server
        self._connection.close()


Change = Callable[[Obj | None, Obj | None], None]
"""(before, after): an object that is new has no before, one that is gone no after."""


class Mirror:
    """A local copy of a collection, kept by list and watch in a thread of its own.

    `changed` is called in that thread, one change at a time; after a gap the list is compared and the differences
    are told in the same way.
    """

    def __init__(self, client: Client, path: str, changed: Change, query: dict[str, str] | None = None) -> None:
        self._client, self._path, self._changed = client, path, changed
        self._query = query or {}
        self._objects: dict[tuple[str, str], Obj] = {}
        self._watch: Watch | None = None
        self._stopped = threading.Event()
        self.synced = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"sim-mirror {path}", daemon=True)

    def start(self) -> None:
        """Begin; `synced` is set after the first list."""
        self._thread.start()

    def stop(self) -> None:
        """End and wait for the thread."""
        self._stopped.set()
        watch = self._watch
        if watch:
            watch.close()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._follow(self._relist())
            except (ApiFailure, transport.TransportError, OSError, http.client.HTTPException, msgspec.DecodeError):
                self._stopped.wait(0.2)  # the server is away; try again soon

    def _relist(self) -> str:
        found = self._client.call("GET", self._path, query=self._query)
        current = {_key(obj): obj for obj in found["items"]}
        for key in [key for key in self._objects if key not in current]:
            self._tell(self._objects.pop(key), None)
        for key, obj in current.items():
            self._put(key, obj)
        self.synced.set()
        return str(found["metadata"]["resourceVersion"])

    def _follow(self, revision: str) -> None:
        while not self._stopped.is_set():
            query = {**self._query, "resourceVersion": revision, "allowWatchBookmarks": "true"}
            self._watch = watch = self._client.watch(self._path, query)
            try:
                for kind, obj in watch:
                    if kind == "ERROR":
                        return
                    revision = obj["metadata"]["resourceVersion"]
                    self._take(kind, obj)
            finally:
                watch.close()
            self._stopped.wait(0.01)  # a server that hangs up at once must not be hammered

    def _take(self, kind: str, obj: Obj) -> None:
        key = _key(obj)
        if kind == "DELETED":
            before = self._objects.pop(key, None)
            if before is not None:
                self._tell(before, None)
        elif kind in ("ADDED", "MODIFIED"):
            self._put(key, obj)

    def _put(self, key: tuple[str, str], obj: Obj) -> None:
        before = self._objects.get(key)
        if before is not None and before["metadata"]["uid"] != obj["metadata"]["uid"]:
            self._tell(before, None)
            before = None
        if before is None or before["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            self._objects[key] = obj
            self._tell(before, obj)

    def _tell(self, before: Obj | None, after: Obj | None) -> None:
        if not self._stopped.is_set():
            self._changed(before, after)


def _key(obj: Obj) -> tuple[str, str]:
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta.get("name", "")
