"""A lean HTTP/1.1 client with a keep-alive pool, whose failures are worded as Go's client words them.

The simulated parts use it to call each other, webhooks and extenders, as the real ones use Go's client. It knows
nothing of Kubernetes. A request is never sent twice: an idle connection that the peer closed is noticed before use.
"""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit


class TransportError(Exception):
    """No whole answer came; `text` is Go's wording, `sent` tells whether the peer may have acted."""

    def __init__(self, text: str, *, sent: bool) -> None:
        super().__init__(text)
        self.text = text
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


class Pool:
    """Connections to one `http://host:port` or `https://…`; at most `idle` of them are kept, as Go keeps two."""

    def __init__(
        self, url: str, *, context: ssl.SSLContext | None = None, server_name: str | None = None, idle: int = 2
    ) -> None:
        parts = urlsplit(url)
        self._host, self._tls = parts.hostname or "", parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else 80)
        self._context, self._server_name = context, server_name
        self._idle_limit = idle
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def request(
        self, method: str, target: str, body: bytes | None, headers: dict[str, str], timeout_s: float
    ) -> Answer:
        """Send one request and read the whole answer. Raises TransportError."""
        deadline = time.monotonic() + timeout_s
        where = f'{method.capitalize()} "{"https" if self._tls else "http"}://{self._host}:{self._port}{target}"'
        connection = self._take(timeout_s, where)
        try:
            return self._exchange(connection, method, target, body, headers, deadline)
        except TimeoutError as failure:
            connection.close()
            raise TransportError(
                f"{where}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)", sent=True
            ) from failure
        except (http.client.RemoteDisconnected, http.client.IncompleteRead, http.client.BadStatusLine) as failure:
            connection.close()
            raise TransportError(f"{where}: EOF", sent=True) from failure
        except (OSError, http.client.HTTPException) as failure:
            connection.close()
            raise TransportError(f"{where}: read tcp: {failure}", sent=True) from failure

    def close(self) -> None:
        """Drop the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None,
        headers: dict[str, str],
        deadline: float,
    ) -> Answer:
        _limit(connection, deadline)
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        _limit(connection, deadline)
        answer = Answer(response.status, response.read(), {key.lower(): value for key, value in response.getheaders()})
        if response.will_close:
            connection.close()
        else:
            self._give_back(connection)
        return answer

    def _take(self, timeout_s: float, where: str) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._connect(timeout_s, where)
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()

    def _connect(self, timeout_s: float, where: str) -> http.client.HTTPConnection:
        connection = self._new(timeout_s)
        address = f"dial tcp {self._host}:{self._port}"
        try:
            connection.connect()
        except ConnectionRefusedError as failure:
            raise TransportError(f"{where}: {address}: connect: connection refused", sent=False) from failure
        except ssl.SSLCertVerificationError as failure:
            raise TransportError(
                f"{where}: tls: failed to verify certificate: {_x509(failure)}", sent=False
            ) from failure
        except TimeoutError as failure:
            raise TransportError(f"{where}: {address}: i/o timeout", sent=False) from failure
        except OSError as failure:
            raise TransportError(f"{where}: {address}: {failure.strerror or failure}", sent=False) from failure
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _new(self, timeout_s: float) -> http.client.HTTPConnection:
        if not self._tls:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        if self._server_name is None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._context)
        return _NamedConnection(self._host, self._port, timeout_s, self._context, self._server_name)

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < self._idle_limit:
                self._idle.append(connection)
                return
        connection.close()


class _NamedConnection(http.client.HTTPSConnection):
    """HTTPS whose certificate must be for another name than the address that is dialled (a Service's name)."""

    def __init__(self, host: str, port: int, timeout_s: float, context: ssl.SSLContext | None, name: str) -> None:
        self._trust = context or ssl.create_default_context()
        super().__init__(host, port, timeout=timeout_s, context=self._trust)
        self._name = name

    def connect(self) -> None:
        """Dial the address, then verify the name."""
        http.client.HTTPConnection.connect(self)
        self.sock = self._trust.wrap_socket(self.sock, server_hostname=self._name)


def _limit(connection: http.client.HTTPConnection, deadline: float) -> None:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    if connection.sock is not None:
        connection.sock.settimeout(remaining)


def _x509(failure: ssl.SSLCertVerificationError) -> str:
    if failure.verify_code in (7, 18, 19, 20, 21):  # signature, self-signed, unknown issuer, source: OpenSSL x509_vfy.h
        return "x509: certificate signed by unknown authority"
    return f"x509: {failure.verify_message}"
