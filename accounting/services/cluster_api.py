"""This process's client of the API server, made on first use from the settings."""

from __future__ import annotations

import threading

from hami_platform import env
from hami_platform.kube import api as ports
from hami_platform.kube import client

_lock = threading.Lock()
_api: ports.Api | None = None


def cluster_api() -> ports.Api:
    """The shared client. Raises kube.errors.Misconfigured."""
    global _api
    with _lock:
        if _api is None:
            settings = env.current()
            _api = client.KubeClient(
                client.Config(
                    kubeconfig=settings.kubeconfig,
                    qps=settings.kube_qps,
                    burst=settings.kube_burst,
                    timeout_s=settings.kube_timeout_s or 10.0,
                )
            )
        return _api


def cluster_api_use(api: ports.Api | None) -> None:
    """Use another client from now on (tests), or with None make it anew."""
    global _api
    with _lock:
        _api = api
