"""The client: configuration, credentials, TLS and connections from the official package.

Only its transport is used: its models cost more than the request, and its default of repeating
failed writes would hide an unknown outcome. This is the only module that imports `kubernetes`.
Must not know: what a call is for, the ledger, Django.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import kubernetes
import msgspec
import urllib3
from urllib3 import exceptions as transport

from hami_platform.kube import calls, errors, limiter, objects

T = TypeVar("T")

CONNECT_S = 5.0
UNAUTHORIZED = 401
CREDENTIALS_S = 1.0  # a renewed token's predecessor is good for longer
LINE_LIMIT = 8 << 20  # a watch line; etcd refuses objects over 1.5 MiB, so this is no object


@dataclass(frozen=True, slots=True)
class Config:
    """How to reach one cluster.

    kubeconfig "" means $KUBECONFIG or ~/.kube/config if present, else the pod's service account.
    qps 0: unlimited. timeout_s bounds each call that does not say otherwise.
    """

    kubeconfig: str = ""
    context: str = ""
    qps: float = 0.0
    burst: int = 100
    timeout_s: float = 10.0
    connections: int = 32
    user_agent: str = "hami-platform"


def configuration(config: Config) -> Any:
    """The official package's Configuration. Raises errors.Misconfigured."""
    settings = kubernetes.client.Configuration()
    settings.connection_pool_maxsize = config.connections
    try:
        if config.kubeconfig:
            _load_file(config, settings, config.kubeconfig)
        else:
            _load_default(config, settings)
    except (kubernetes.config.ConfigException, OSError, ValueError) as error:
        raise errors.Misconfigured(f"no usable Kubernetes configuration: {error}") from error
    return settings


def _load_file(config: Config, settings: Any, path: str | None) -> None:
    kubernetes.config.load_kube_config(  # type: ignore[no-untyped-call]
        config_file=path,
        context=config.context or None,
        client_configuration=settings,
        persist_config=False,
    )


def _load_default(config: Config, settings: Any) -> None:
    try:
        kubernetes.config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    except kubernetes.config.ConfigException:
        _load_file(config, settings, None)


class KubeClient:
    """Sends calls over a shared pool of connections. Safe for many threads."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._api = kubernetes.client.ApiClient(configuration(config))
        self._pool: urllib3.PoolManager = self._api.rest_client.pool_manager
        self._limiter = limiter.Limiter(config.qps, config.burst)
        self._credentials = threading.Lock()  # an exec plugin must not run twice at once
        self._known: tuple[float, dict[str, str]] = (0.0, {})

    def send(self, call: calls.KubeCall[T], *, timeout_s: float | None = None) -> T:
        """The decoded answer. Raises errors.KubeError; see there what is known after each.

        A write is sent at most once. A read whose connection breaks is sent once more, since
        the server may close an idle connection in the moment we use it.
        """
        timeout_s = timeout_s or self._config.timeout_s
        try:
            response = self._request(call, timeout_s)
        except errors.Ambiguous:
            if not call.reads:
                raise
            response = self._request(call, timeout_s)
        if response.status == UNAUTHORIZED:
            self._known = (0.0, {})
        if response.status >= 400:
            raise _refusal(response)
        try:
            return objects.decode(response.data, call.answer)
        except objects.Undecodable as error:
            raise errors.Ambiguous(f"{call.method} {call.path}: {error}") from error

    def watch(self, call: calls.KubeCall[T], *, idle_s: float) -> WatchStream[T]:
        """Open a watch. Raises as `send`; a 410 here is `Gone`."""
        response = self._request(call, idle_s, stream=True)
        if response.status >= 400:
            raise _refusal(response)
        return WatchStream(response, call.answer)

    def close(self) -> None:
        """Drop the idle connections."""
        for key in self._pool.pools.keys():  # noqa: SIM118  it cannot be iterated itself
            self._pool.pools[key].close()
        self._pool.clear()

    def _request(self, call: calls.KubeCall[T], timeout_s: float, *, stream: bool = False) -> urllib3.BaseHTTPResponse:
        if not self._limiter.take(timeout_s):
            raise errors.Throttled(429, "ClientThrottled", "our own request limit is used up")
        try:
            return self._pool.request(
                call.method,
                self._api.configuration.host + call.target,
                body=None if call.body is None else msgspec.json.encode(call.body),
                headers=self._headers(call),
                timeout=urllib3.Timeout(connect=min(CONNECT_S, timeout_s), read=timeout_s),
                preload_content=not stream,
                retries=False,
            )
        except (transport.NewConnectionError, transport.ConnectTimeoutError) as error:
            raise errors.Unreachable(f"{call.method} {call.path}: {error}") from error
        except transport.HTTPError as error:
            raise _broken(call, error) from error

    def _headers(self, call: calls.KubeCall[T]) -> dict[str, str]:
        headers = {"Accept": calls.JSON, "User-Agent": self._config.user_agent}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        return headers | self._authorization(call)

    def _authorization(self, call: calls.KubeCall[T]) -> dict[str, str]:
        """The header that says who asks. The package works it out from its files at each request; once a second will
        do."""
        with self._credentials:
            read_s, known = self._known
            if known and time.monotonic() - read_s < CREDENTIALS_S:
                return known
            found: dict[str, str] = {}
            try:
                self._api.update_params_for_auth(found, [], ["BearerToken"], call.path, call.method, None)
            except (kubernetes.config.ConfigException, OSError, ValueError) as error:
                raise errors.Misconfigured(f"credentials cannot be renewed: {error}") from error
            self._known = (time.monotonic(), found)
            return found


def _broken(call: calls.KubeCall[T], error: transport.HTTPError) -> errors.KubeError:
    """A failed handshake sent nothing; after anything else the outcome is unknown."""
    text = f"{call.method} {call.path}: {error}"
    if isinstance(error, transport.SSLError | transport.ProxyError):
        return errors.Unreachable(text)
    return errors.Ambiguous(text)


def _refusal(response: urllib3.BaseHTTPResponse) -> errors.KubeError:
    """The error in an answer of 400 or more, from its Status object where there is one."""
    data = response.data
    try:
        status = objects.decode(data, objects.Status)
    except objects.Undecodable:
        status = objects.Status(message=data[:200].decode(errors="replace").strip())
    wait = response.headers.get("Retry-After", "")
    retry_after_s = float(wait) if wait.isdigit() else float(status.details.retry_after_seconds)
    message = status.message or (response.reason or "")
    return errors.refused(response.status, status.reason, message, retry_after_s)


class WatchStream(Generic[T]):
    """An open watch: iterate for decoded lines.

    It ends without an error when the server ends it, the connection is cut, nothing came for the
    idle time, or it is closed: to the reader these are the same, it resumes from its last
    revision. A line that is no event raises errors.Ambiguous.
    """

    def __init__(self, response: urllib3.BaseHTTPResponse, line: type[T]) -> None:
        self._response = response
        self._decoder = msgspec.json.Decoder(line)
        self._lock = threading.Lock()
        self._reading = self._closed = False

    def __iter__(self) -> Iterator[T]:
        with self._lock:
            if self._closed:
                return
            self._reading = True
        try:
            for line in self._lines():
                yield self._decode(line)
        finally:
            with self._lock:
                self._closed, self._reading = True, False
            self._response.close()

    def _decode(self, line: bytes) -> T:
        try:
            return self._decoder.decode(line)
        except msgspec.DecodeError as error:
            raise errors.Ambiguous(f"not a watch event: {error}") from error

    def _lines(self) -> Iterator[bytes]:
        rest = b""
        while True:
            try:
                data = self._response.read1(1 << 16)
            except (transport.HTTPError, OSError, ValueError):
                return  # cut, idle, or shut down by close(); urllib3 names the last variously
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > LINE_LIMIT:
                raise errors.Ambiguous(f"a watch line of over {LINE_LIMIT} bytes")
            yield from (line for line in lines if line.strip())

    def close(self) -> None:
        """End it, from any thread. The blocked reader wakes and releases the connection."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._reading:
                self._response.shutdown()
                return
        self._response.close()
