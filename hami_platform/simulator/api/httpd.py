"""A small threaded HTTP/1.1 server: keep-alive, chunked streams, TLS. Knows nothing of Kubernetes.

The standard library's server parses headers with its mail package and writes unbuffered; this one serves a watch
per client and thousands of short requests, so it does neither.
"""

from __future__ import annotations

import contextlib
import http
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import IO, Any
from urllib.parse import parse_qsl, unquote

from hami_platform.simulator.api.types import Request, Response

Handler = Callable[[Request], Response]

MAX_BODY = 3 * 1024 * 1024  # source: apiserver MaxRequestBodyBytes
_MAX_LINE = 64 * 1024


class BadRequest(Exception):
    """The bytes are not an HTTP request that this server reads; the connection is closed."""


class TooLarge(BadRequest):
    """The body is over the limit: it is not read, and the connection is closed after the answer."""


class HangUp(Exception):
    """A handler raises it to close the connection without an answer."""


class HttpServer:
    """Accepts connections on one address and gives each a thread."""

    def __init__(
        self, handler: Handler, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self._handler = handler
        self._tls = tls
        self._listener = socket.create_server((host, port), backlog=512)
        self.host, self.port = self._listener.getsockname()[:2]
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._stopped = threading.Event()
        self._acceptor = threading.Thread(target=self._accept, name="sim-accept", daemon=True)

    def start(self) -> None:
        """Begin to accept."""
        self._acceptor.start()

    def stop(self) -> None:
        """Close the listener and every connection, then wait for their threads."""
        self._stopped.set()
        _shut(self._listener)
        with self._lock:
            threads = list(self._open.items())
        for connection, _ in threads:
            _shut(connection)
        self._acceptor.join(5)
        for _, thread in threads:
            thread.join(5)

    @property
    def stopped(self) -> bool:
        """True once stop() was called."""
        return self._stopped.is_set()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), name="sim-http", daemon=True)
            with self._lock:
                self._open[connection] = thread
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        wrapped = connection
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                wrapped = self._tls.wrap_socket(connection, server_side=True)
            reader: Any = wrapped.makefile("rb", buffering=64 * 1024)
            while not self._stopped.is_set() and self._exchange(wrapped, reader):
                pass
        except (OSError, BadRequest, HangUp, ValueError):
            pass  # the client went away, sent something else, or a fault hook hung up
        finally:
            with self._lock:
                self._open.pop(connection, None)
            _shut(wrapped)

    def _exchange(self, connection: socket.socket, reader: IO[bytes]) -> bool:
        request = read_request(reader)
        if request is None:
            return False
        if "100-continue" in request.headers.get("expect", ""):
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            request.body = _body(request, reader)
        except TooLarge:
            text = f"Request entity too large: limit is {MAX_BODY}".encode()
            refusal = Response(413, text, "text/plain; charset=utf-8")
            connection.sendall(_head(refusal, f"Content-Length: {len(text)}", keep=False) + text)
            raise
        response = self._handler(request)
        keep = request.headers.get("connection", "").lower() != "close"
        if response.stream is None:
            connection.sendall(_head(response, f"Content-Length: {len(response.body)}", keep) + response.body)
        else:
            connection.sendall(_head(response, "Transfer-Encoding: chunked", keep))
            with contextlib.closing(response.stream) as stream:
                keep = _send_stream(connection, stream) and keep
        return keep


def read_request(reader: IO[bytes]) -> Request | None:
    """The request line and headers; None when the client closed. Raises BadRequest."""
    line = reader.readline(_MAX_LINE)
    if not line:
        return None
    parts = line.decode("latin-1").split()
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadRequest(line)
    path, _, query = parts[1].partition("?")
    headers: dict[str, str] = {}
    while (line := reader.readline(_MAX_LINE)) not in (b"\r\n", b"\n"):
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            raise BadRequest(line)
        headers[name.strip().lower()] = value.strip()
    return Request(parts[0], unquote(path), dict(parse_qsl(query, keep_blank_values=True)), headers, b"")


def _body(request: Request, reader: IO[bytes]) -> bytes:
    if "chunked" in request.headers.get("transfer-encoding", "").lower():
        return b"".join(_chunks(reader))
    length = int(request.headers.get("content-length") or 0)
    if length > MAX_BODY:
        raise TooLarge
    body = reader.read(length) if length else b""
    if len(body) != length:
        raise BadRequest("unexpected EOF")
    return body


def _chunks(reader: IO[bytes]) -> Iterator[bytes]:
    while size := int(reader.readline(_MAX_LINE).split(b";")[0], 16):
        yield reader.read(size)
        reader.readline(_MAX_LINE)
    while reader.readline(_MAX_LINE) not in (b"\r\n", b"\n", b""):
        pass


def _head(response: Response, framing: str, keep: bool) -> bytes:
    reason = http.HTTPStatus(response.status).phrase
    lines = [f"HTTP/1.1 {response.status} {reason}", f"Content-Type: {response.content_type}", framing]
    lines += [f"{name}: {value}" for name, value in response.headers]
    if not keep:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def _send_stream(connection: socket.socket, stream: Iterator[bytes]) -> bool:
    """Send chunks until the stream ends. False: the client left."""
    for chunk in stream:
        if chunk:
            connection.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        elif select.select([connection], [], [], 0)[0]:
            return False  # a watching client says nothing more, so readable means closed
    connection.sendall(b"0\r\n\r\n")
    return True


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # closed by the other side already
        connection.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        connection.close()
