"""A small Kubernetes client for tests: kept connections, plain dicts in and out.

It is deliberately not the product's client, so that a fault in that one cannot hide itself.
Must not know: the product.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from concurrent import futures
from typing import Any

from tests.cluster.certificates import Pair

Object = dict[str, Any]
MERGE_PATCH = "application/merge-patch+json"
POLL_S = 0.05


class ApiError(Exception):
    """The API server answered with a status other than 2xx."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: {status} {body}")
        self.status = status
        self.message = _message(body)


class NotYet(AssertionError):
    """What a test waited for did not come about in time."""


class Kube:
    """The API server at `port`, as the user of a client certificate."""

    def __init__(self, port: int, authority: str, user: Pair) -> None:
        self._port = port
        self._context = ssl.create_default_context(cafile=authority)
        self._context.load_cert_chain(user.certificate, user.key)
        self._idle: list[http.client.HTTPSConnection] = []  # append and pop are atomic

    def call(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Object:
        """One request. Raises ApiError on any status but 2xx, OSError when nobody answers."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": kind, "Accept": "application/json"}
        status, answer = self._exchange(method, path, data, headers)
        if not 200 <= status < 300:
            raise ApiError(method, path, status, answer.decode(errors="replace"))
        try:
            decoded: Object = json.loads(answer or b"{}")
        except ValueError:
            decoded = {"text": answer.decode(errors="replace")}  # /readyz and its like
        return decoded

    def close(self) -> None:
        """Close the connections that are kept."""
        while self._idle:
            self._idle.pop().close()

    def _exchange(self, method: str, path: str, data: str | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        while True:
            connection, fresh = self._connection()
            try:
                connection.request(method, path, data, dict(headers))
                answer = connection.getresponse()
                content = answer.read()
            except (http.client.HTTPException, OSError):
                connection.close()
                # A kept connection may have been closed meanwhile; a fresh one that fails is an answer.
                if fresh:
                    raise
            else:
                self._idle.append(connection)
                return answer.status, content

    def _connection(self) -> tuple[http.client.HTTPSConnection, bool]:
        try:
            return self._idle.pop(), False
        except IndexError:
            return http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=60), True

    def ready(self) -> bool:
        """Whether the API server says that it is."""
        try:
            self.call("GET", "/readyz")
        except ApiError:
            return False
        return True

    # Objects by their collection's path, such as /api/v1/namespaces/x/pods.

    def create(self, collection: str, body: Object, *, dry_run: bool = False) -> Object:
        """POST one object."""
        return self.call("POST", collection + ("?dryRun=All" if dry_run else ""), body)

    def get(self, path: str) -> Object | None:
        """The object at `path`, or None."""
        try:
            return self.call("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, collection: str, **query: str) -> list[Object]:
        """All objects of a collection; `query` are its parameters, such as labelSelector."""
        suffix = "?" + urllib.parse.urlencode(query) if query else ""
        items: list[Object] = self.call("GET", collection + suffix)["items"]
        return items

    def patch(self, path: str, body: Object) -> Object:
        """JSON merge patch of one object or subresource."""
        return self.call("PATCH", path, body, MERGE_PATCH)

    def delete(self, path: str, *, grace_s: int | None = None) -> None:
        """Delete one object; one that is gone already is fine."""
        options: Object = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        try:
            self.call("DELETE", path, options)
        except ApiError as error:
            if error.status != 404:
                raise


def pods_of(namespace: str) -> str:
    """The collection of a namespace's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


def pod_path(namespace: str, name: str) -> str:
    """One pod."""
    return f"{pods_of(namespace)}/{name}"


def eventually(what: str, read: Callable[[], Any], *, within_s: float = 30) -> Any:
    """Poll `read` until it answers something true and return that; else fail, naming `what`."""
    deadline = time.monotonic() + within_s
    while True:
        answer = read()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise NotYet(f"not within {within_s:g} s: {what} (last: {answer!r})")
        time.sleep(POLL_S)


def at_once(function: Callable[[Any], Any], items: Iterable[Any], threads: int = 8) -> list[Any]:
    """Call `function` for every item from several threads; the first exception is raised."""
    with futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


def _message(body: str) -> str:
    try:
        status = json.loads(body)
    except ValueError:
        return body
    return str(status.get("message", body)) if isinstance(status, dict) else body
