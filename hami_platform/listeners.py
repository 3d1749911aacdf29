"""Runs a listener: granian with the threads, TLS and logs that its role needs. Knows no app and loads no Django.

The parent process holds the socket and watches the certificate files; worker processes load the WSGI application. A
renewed certificate is taken over by replacing the workers one by one. Started as `python -m hami_platform.listeners
ROLE`, normally by `manage.py serve`.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import resource
import signal
import ssl
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings, HTTP2Settings
from granian.log import LogLevels
from granian.server import MPServer

from hami_platform import certs, env, env_values, logs

ROLES: Final = ("web", "webhook", "extender")
_TARGET: Final = "hami_platform.wsgi:application"
# The path without its query: a query may carry what nobody should read in a log.
_ACCESS: Final = 'request method=%(method)s path="%(path)s" status=%(status)d ms=%(dt_ms).1f client=%(addr)s'
_STOP_S: Final = 30
_WATCH_S: Final = 10.0
_INSIST_S: Final = 1.0
_PONG_S: Final = 20
_OTHER_FILES: Final = 256  # of a worker: database, logs, the API server
_PR_SET_PDEATHSIG: Final = 1  # source: Linux, include/uapi/linux/prctl.h

_log = logs.get(__name__)

# Held around the watching thread's use of OpenSSL, and around every fork: a worker that is forked while another thread
# is inside OpenSSL inherits that thread's read lock, which nobody in it gives back, and hangs at some later handshake.
_openssl = threading.Lock()


@dataclass(frozen=True, slots=True)
class Tls:
    """The files that a listener's TLS is made of. `client_ca` None: clients present no certificate."""

    cert: pathlib.Path
    key: pathlib.Path
    client_ca: pathlib.Path | None

    def check(self) -> None:
        """Raises ssl.SSLError or OSError when the files do not belong together, as while they are being replaced."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)


def address(settings: env.Settings, role: str) -> env_values.Address:
    """Where a role listens."""
    return {"web": settings.web_bind, "webhook": settings.webhook_bind, "extender": settings.extender_bind}[role]


def tls(settings: env.Settings, role: str) -> Tls | None:
    """The TLS of a role; None: plain HTTP, which only the console and a loopback extender may speak.

    Without configured files the webhook, which the API server calls over TLS only, and an extender beyond loopback
    get a self-made certificate. Keys in another form than PKCS#8 are converted into the state folder.
    """
    folder = pathlib.Path(settings.state_dir).resolve() / "tls"
    authority = {"extender": settings.tls_client_ca_file, "webhook": settings.webhook_client_ca_file}.get(role, "")
    client_ca = pathlib.Path(authority) if authority else None
    remote = role == "extender" and not settings.extender_bind.loopback
    if settings.tls_cert_file:
        key = certs.pkcs8(pathlib.Path(settings.tls_key_file), folder / f"{role}-pkcs8.pem")
        return Tls(pathlib.Path(settings.tls_cert_file), key, client_ca)
    if role == "webhook" or client_ca is not None or remote:
        pair = certs.server(folder, role, settings.tls_names)
        return Tls(pair.cert, pair.key, client_ca)
    return None


def serve(role: str) -> None:
    """Serve until SIGTERM or SIGINT; requests under way are finished. SIGHUP replaces the workers."""
    os.environ["HAMI_ROLE"] = role
    settings = env.load(os.environ)
    logs.configure(settings.log_level, settings.log_format)
    files = tls(settings, role)
    if files is not None:
        files.check()
    # A fresh worker inherits the parent's handler, which would swallow a stop that comes while it still loads.
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    os.register_at_fork(before=_openssl.acquire, after_in_parent=_openssl.release, after_in_child=_openssl.release)
    server = MPServer(**_options(settings, role, files))
    server.on_startup(lambda: signal.signal(signal.SIGTERM, lambda *_: _stop(server)))
    if files is not None:
        server.on_reload(lambda: _refresh(settings, role))
        threading.Thread(target=_watch, args=(settings, role), name="certificates", daemon=True).start()
    server.serve(target_loader=_load, wrap_loader=False)


def _stop(server: Any) -> None:  # granian types none of its methods
    """Stop, and tell the workers again until they are gone: one that is about to serve misses the first word."""

    def insist() -> None:
        pause = threading.Event()
        while not pause.wait(_INSIST_S):
            for worker in list(server.wrks):
                worker.terminate()

    server.signal_handler_interrupt()
    threading.Thread(target=insist, name="stop", daemon=True).start()


def _options(settings: env.Settings, role: str, files: Tls | None) -> dict[str, Any]:
    where = address(settings, role)
    options: dict[str, Any] = {
        "target": _TARGET,
        "address": where.host,
        "port": where.port,
        "interface": Interfaces.RSGI,
        "workers": settings.listener_workers,
        "blocking_threads": 1,  # the threads that answer are `Patient`'s
        **_bounds(settings, files),
        "workers_kill_timeout": _STOP_S,
        "respawn_failed_workers": True,
        "log_level": LogLevels(settings.log_level),
        "log_dictconfig": _log_config(settings),
        # A decision is logged by who made it; lines about every call of the API server would only repeat that.
        "log_access": role == "web",
        "log_access_format": _ACCESS,
    }
    if files is not None:
        options |= {"ssl_cert": files.cert, "ssl_key": files.key}
        options |= {"ssl_ca": files.client_ca, "ssl_client_verify": files.client_ca is not None}
    return options


def _bounds(settings: env.Settings, files: Tls | None) -> dict[str, Any]:
    """How long a client may take, and how many there may be. Bodies are `Patient`'s.

    Without TLS HTTP/1.1 alone is spoken: where the server must first see which version comes, it waits for the first
    bytes for ever. Over TLS the handshake has a bound, and a peer of HTTP/2 that vanished is noticed by its silence.
    """
    head_s = settings.listener_head_timeout_s
    return {
        "http": HTTPModes.http1 if files is None else HTTPModes.auto,
        "http1_settings": HTTP1Settings(header_read_timeout=int(head_s * 1000)),
        "http2_settings": HTTP2Settings(keep_alive_interval=int(head_s * 1000), keep_alive_timeout=_PONG_S),
        "backpressure": connections(settings.listener_connections),
    }


def connections(wanted: int) -> int:
    """As many as are wanted, or as the files that a process may open allow. Raises that bound as far as it can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    most = max(1, hard - _OTHER_FILES)
    if wanted > most:
        _log.warning("fewer connections than configured", wanted=wanted, allowed=most, files=hard)
    return min(wanted, most)


def _log_config(settings: env.Settings) -> dict[str, Any]:
    """Ours, with granian's loggers passing their records up instead of printing them their own way."""
    config = logs.standard(settings.log_level, settings.log_format)
    upwards: dict[str, Any] = {"handlers": [], "propagate": True}
    config["loggers"] |= {"_granian": dict(upwards), "granian.access": {**upwards, "level": "INFO"}}
    return config


def _load() -> Callable[..., Any]:
    """Runs in each worker: end with the parent, even when that is killed, then load the application."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(1)  # it died before the signal was armed
    from hami_platform import wsgi
    from hami_platform.patient import Patient

    settings = env.current()
    threads, wait_s = settings.listener_threads, settings.listener_body_timeout_s
    return Patient(wsgi.application, threads=threads, wait_s=wait_s).__rsgi__


def _refresh(settings: env.Settings, role: str) -> None:
    """Before new workers start: convert a renewed key again, renew a self-made certificate."""
    tls(settings, role)


def _watch(settings: env.Settings, role: str) -> None:
    """Replace the workers when a certificate file has changed and the set is whole again."""
    seen = _stamp(settings, role)
    pause = threading.Event()
    while not pause.wait(_WATCH_S):
        now = _stamp(settings, role)
        if now == seen or now is None:
            continue
        _log.info("certificates changed, replacing workers", role=role)
        seen = now
        os.kill(os.getpid(), signal.SIGHUP)


def _stamp(settings: env.Settings, role: str) -> tuple[int, ...] | None:
    """Change times of the files; None while they cannot be used, so that the old ones serve on."""
    try:
        with _openssl:
            files = tls(settings, role)
            if files is None:
                return ()
            files.check()
        sources = (files.cert, pathlib.Path(settings.tls_key_file) if settings.tls_key_file else files.key)
        watched = (*sources, files.client_ca) if files.client_ca is not None else sources
        return tuple(path.stat().st_mtime_ns for path in watched)
    except (OSError, ValueError, ssl.SSLError) as error:
        _log.warning("certificate files cannot be used, keeping the old ones", role=role, error=str(error))
        return None


def main(arguments: list[str]) -> int:
    """`python -m hami_platform.listeners ROLE`; 2 when the role or the settings are wrong."""
    if len(arguments) != 1 or arguments[0] not in ROLES:
        sys.stderr.write(f"which listener? one of {', '.join(ROLES)}\n")
        return 2
    try:
        serve(arguments[0])
    except (env.BadSettingsError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
