"""The registry of this process's metrics and how it is shown. Knows no app: apps register their own collectors.

Names end in their unit. HAMi's names and ours stand side by side; whoever owns a figure declares its metric.
"""

from __future__ import annotations

from typing import Final

import prometheus_client
from prometheus_client.registry import Collector

from hami_platform import env_values

REGISTRY: Final = prometheus_client.CollectorRegistry(auto_describe=True)
CONTENT_TYPE: Final = prometheus_client.CONTENT_TYPE_LATEST

prometheus_client.ProcessCollector(registry=REGISTRY)
prometheus_client.PlatformCollector(registry=REGISTRY)


def register(collector: Collector) -> None:
    """Add a collector once, at start. Raises ValueError when one of its names is taken."""
    REGISTRY.register(collector)


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


def render() -> bytes:
    """Everything registered, in the text format of CONTENT_TYPE."""
    return prometheus_client.generate_latest(REGISTRY)


def serve(address: env_values.Address) -> None:
    """Show them over plain HTTP from a daemon thread, for processes without another listener. Raises OSError."""
    prometheus_client.start_http_server(address.port, addr=address.host, registry=REGISTRY)
