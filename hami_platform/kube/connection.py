"""This process's one client, made from its settings when it is first needed.

Must not know: what is sent over it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from hami_platform import env
from hami_platform.kube import api as ports
from hami_platform.kube import client

_lock = threading.Lock()
_api: ports.Api | None = None


def api() -> ports.Api:
    """The client that all threads share. Raises errors.Misconfigured."""
    global _api
    with _lock:
        if _api is None:
            _api = client.KubeClient(config())
        return _api


def config() -> client.Config:
    """What the settings say about the API server."""
    settings = env.current()
    return client.Config(
        kubeconfig=settings.kubeconfig,
        qps=settings.kube_qps,
        burst=settings.kube_burst,
        timeout_s=settings.kube_timeout_s,
        connections=settings.listener_threads,
        user_agent=f"hami-platform-{settings.role}",
    )


@contextlib.contextmanager
def override(api: ports.Api | None) -> Iterator[None]:
    """For tests: another client for a while; None: make it anew from the settings."""
    global _api
    with _lock:
        before, _api = _api, api
    try:
        yield
    finally:
        with _lock:
            _api = before
