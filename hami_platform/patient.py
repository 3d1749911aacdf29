"""Takes requests in whole, on an event loop, before a WSGI application gets a thread for them.

Under WSGI the server gives a thread away as soon as a request's head is there, and the thread then waits for the body
as long as the client likes: some slow clients would hold all of them. Here a body costs no thread until it is there,
and has a few seconds to come. Speaks granian's RSGI on one side and WSGI (PEP 3333) on the other. Knows no app.
"""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from granian.rsgi import ProtocolClosed  # type: ignore[attr-defined]  # imported there to be imported from there

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Answer = tuple[int, list[tuple[str, str]], bytes]

MOST_BYTES: Final = (64 << 20) + 1024
"""No request that this platform answers is larger; views have limits of their own below this."""


class Patient:
    """An RSGI application in front of a WSGI one; `threads` answer at once. wait_s: for a body to come in whole."""

    def __init__(self, application: Application, *, threads: int, wait_s: float) -> None:
        self._application = application
        self._wait_s = wait_s
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="request")

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        """One request. Whoever hung up gets no answer."""
        try:
            status, headers, body = await self._answered(scope, protocol)
            protocol.response_bytes(status, headers, body)
        except ProtocolClosed:
            return

    async def _answered(self, scope: Any, protocol: Any) -> Answer:
        if scope.proto != "http":
            return _refused(400, "only HTTP is spoken here")
        try:
            async with asyncio.timeout(self._wait_s):
                body = await _whole(protocol)
        except TimeoutError:
            return _refused(408, f"the body did not come within {self._wait_s:g} s")
        if len(body) > MOST_BYTES:
            return _refused(413, f"the body is larger than {MOST_BYTES} bytes")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._call, environ(scope, body))

    def _call(self, asked: dict[str, Any]) -> Answer:
        """Runs in a thread of its own, which is one request's from start to end, as Django expects."""
        begun: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> None:
            begun.append((status, headers))

        parts = self._application(asked, start_response)
        try:
            body = b"".join(parts)
        finally:
            if (close := getattr(parts, "close", None)) is not None:
                close()
        status, headers = begun[-1]
        return int(status.split(" ", 1)[0]), [(name.lower(), text) for name, text in headers], body


async def _whole(protocol: Any) -> bytes:
    """The body; a little more than MOST_BYTES of a larger one."""
    parts, length = [], 0
    async for part in protocol:
        parts.append(part)
        length += len(part)
        if length > MOST_BYTES:
            break
    return b"".join(parts)


def environ(scope: Any, body: bytes) -> dict[str, Any]:
    """The request as PEP 3333 has it. A header with an underscore in its name is dropped: the variable that it would
    become is that of another header, which a proxy may have set."""
    host, _, port = scope.server.rpartition(":")
    found: dict[str, Any] = {
        "REQUEST_METHOD": scope.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": scope.path.encode("utf-8", "surrogateescape").decode("latin-1"),
        "QUERY_STRING": scope.query_string,
        "SERVER_NAME": host,
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
        "REMOTE_ADDR": scope.client.rpartition(":")[0].strip("[]"),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.scheme,
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, text in scope.headers.items():
        if "_" in name:
            continue
        key = "HTTP_" + name.upper().replace("-", "_")
        joint = "; " if name == "cookie" else ","
        found[key] = f"{found[key]}{joint}{text}" if key in found else text
    if (kind := found.pop("HTTP_CONTENT_TYPE", None)) is not None:
        found["CONTENT_TYPE"] = kind
    found.pop("HTTP_CONTENT_LENGTH", None)
    found["CONTENT_LENGTH"] = str(len(body))
    return found


def _refused(status: int, why: str) -> Answer:
    return status, [("content-type", "text/plain; charset=utf-8"), ("connection", "close")], why.encode()
