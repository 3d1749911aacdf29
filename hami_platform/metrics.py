"""The registry of this process's metrics and how it is shown. Knows no app: apps register their own collectors.

Names end in their unit. HAMi's names and ours stand side by side; whoever owns a figure declares its metric. Figures
of thousands of things are made as text when somebody asks: as objects they cost ten times as much.
"""

from __future__ import annotations

import contextlib
import gzip
import http
import socket
import threading
import urllib.parse
import wsgiref.simple_server
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import prometheus_client
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from hami_platform import env_values, health, logs

_log = logs.get(__name__)

REGISTRY: Final = prometheus_client.CollectorRegistry(auto_describe=True)
CONTENT_TYPE: Final = prometheus_client.CONTENT_TYPE_LATEST

prometheus_client.ProcessCollector(registry=REGISTRY)
prometheus_client.PlatformCollector(registry=REGISTRY)

READ_S = 30.0
MOST_READERS = 16

Provider = Callable[[], Iterable[str]]
"""Makes metrics as text when asked: what `family` yields."""

_providers: dict[str, Provider] = {}
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def register(collector: Collector) -> None:
    """Add a collector once, at start. Raises ValueError when one of its names is taken."""
    REGISTRY.register(collector)


def provide(name: str, provider: Provider) -> None:
    """Show this text too from now on, in place of an earlier one of that name; what raises is left out and counted."""
    _providers[name] = provider


def labels(**values: object) -> str:
    """The labels of a sample as text, in the order given, escaped."""
    return ",".join(f'{name}="{escaped(str(value))}"' for name, value in values.items())


def escaped(value: str) -> str:
    """A label's value as it may stand between quotes."""
    return value.translate(_ESCAPES)


def family(name: str, text: str, samples: Iterable[tuple[str, float]], kind: str = "gauge") -> Iterator[str]:
    """One metric as text; samples are (labels, value). Nothing at all where there is no sample."""
    lines = [f"{name}{{{of}}} {value}\n" if of else f"{name} {value}\n" for of, value in samples]
    if lines:
        yield f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
        yield from lines


def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> prometheus_client.Counter:
    """A counter in our registry."""
    return prometheus_client.Counter(name, text, labels, registry=REGISTRY)


def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> prometheus_client.Gauge:
    """A gauge in our registry."""
    return prometheus_client.Gauge(name, text, labels, registry=REGISTRY)


def histogram(
    name: str,
    text: str,
    labels: tuple[str, ...] = (),
    buckets: tuple[float, ...] = prometheus_client.Histogram.DEFAULT_BUCKETS,
) -> prometheus_client.Histogram:
    """A histogram in our registry; buckets are upper bounds in the unit that the name ends in."""
    return prometheus_client.Histogram(name, text, labels, registry=REGISTRY, buckets=buckets)


_failures = counter("hami_platform_metrics_failures_total", "Figures that could not be made for a scrape.", ("of",))


def render() -> bytes:
    """Everything registered, in the text format of CONTENT_TYPE."""
    provided = "".join(text for name, provider in list(_providers.items()) for text in _made(name, provider))
    # Last, so that a failure just now is counted in it. What is no UTF-8 (lone surrogates) must not cost all the rest.
    return provided.encode(errors="replace") + prometheus_client.generate_latest(REGISTRY)


def _made(name: str, provider: Provider) -> list[str]:
    try:
        return list(provider())
    except Exception:  # noqa: BLE001  whatever fails, the others are still worth showing
        _failures.labels(name).inc()
        _log.exception("metrics_failed", of=name)
        return []


def answer(accepted: str) -> tuple[bytes, dict[str, str]]:
    """(body, headers) for a reader that accepts these encodings. Thousands of series shrink to a twentieth."""
    body, headers = render(), {"Content-Type": CONTENT_TYPE, "Vary": "Accept-Encoding"}
    if "gzip" in accepted:
        body, headers["Content-Encoding"] = gzip.compress(body, compresslevel=1), "gzip"
    return body, headers


def serve(address: env_values.Address) -> wsgiref.simple_server.WSGIServer:
    """Show them over plain HTTP from a daemon thread, for processes without another listener. Raises OSError."""
    found = socket.getaddrinfo(address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family_, *_, where = found[0]
    server = type("_Server", (_BoundedServer,), {"address_family": family_})
    listening: wsgiref.simple_server.WSGIServer = wsgiref.simple_server.make_server(
        str(where[0]), address.port, _application, server, handler_class=_SilentHandler
    )
    threading.Thread(target=listening.serve_forever, name="metrics", daemon=True).start()
    return listening


def serve_when_free(address: env_values.Address, *, retry_s: float = 5.0) -> None:
    """The same for one of several workers: whoever comes first, and the next one when that ends."""
    pause = threading.Event()

    def until_it_is() -> None:
        while True:
            try:
                serve(address)
            except OSError as error:
                _log.debug("metrics_address_taken", port=address.port, error=str(error))
                pause.wait(retry_s)
            else:
                return

    threading.Thread(target=until_it_is, name="metrics-wait", daemon=True).start()


class _BoundedServer(ThreadingWSGIServer):
    """At most MOST_READERS threads; who comes beyond is hung up on at once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._free = threading.BoundedSemaphore(MOST_READERS)
        super().__init__(*args, **kwargs)

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for this reader, if one is free."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Runs in that thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class _SilentHandler(wsgiref.simple_server.WSGIRequestHandler):
    """A scrape every few seconds is no news. One that takes longer than READ_S is cut off."""

    def handle(self) -> None:
        """One request; a byte now and then does not prolong it."""
        end = threading.Timer(READ_S, self._hang_up)
        end.daemon = True
        end.start()
        try:
            with contextlib.suppress(ConnectionError):
                super().handle()
        finally:
            end.cancel()

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_args: Any) -> None:
        """Nothing."""


def _application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """The whole listener: what the process says of its health, and metrics at any other path."""
    if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
        status = http.HTTPStatus.METHOD_NOT_ALLOWED
        start_response(f"{status} {status.phrase}", [("Allow", "GET, HEAD")])
        return [b""]
    if (asked := health.PATHS.get(environ["PATH_INFO"])) is not None:
        found = health.answer(asked, verbose="verbose" in urllib.parse.parse_qs(environ["QUERY_STRING"], True))
        status = http.HTTPStatus(found.status)
        start_response(f"{status} {status.phrase}", [("Content-Type", found.content_type)])
        return [found.body]
    body, headers = answer(environ.get("HTTP_ACCEPT_ENCODING", ""))
    start_response("200 OK", list(headers.items()))
    return [body]
