"""What the platform writes on nodes: the handshake request that HAMi's plugins look for, and the label that narrowing
goes by.

Each is written once. A change of a node makes kube-scheduler try every waiting pod again, so nothing is renewed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from accounting import ledger
from accounting.services.node_seen import NodeSeen
from hami_platform import env, logs
from hami_platform.domain.vendors.base import LABEL_TRUE, DeviceConfig
from hami_platform.domain.wire import handshake
from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors, objects

WRITING_S = 1.0
"""How long one call goes on writing nodes, at least one; the others come with the next one."""

TICK_S = 8.0
"""The same for who has nothing else to do: the reconcile tick."""

log = logs.get(__name__)


def handshakes_request(api: ports.Api, seen: Iterable[NodeSeen], *, config: DeviceConfig) -> int:
    """Stamp `Requesting_<local time>` where a vendor's plugin other than our agent registers and no request stands.

    The number of nodes written. Raises kube errors that are no answer.
    """
    local_now = ledger.database_time().astimezone().replace(tzinfo=None)
    text = handshake.encode(local_now)
    return _write(
        api,
        (
            calls.node_annotate(
                name=one.name, annotations=dict.fromkeys(keys, text), resource_version=one.resource_version
            )
            for one in seen
            if not one.agent and (keys := _unasked(one, config))
        ),
    )


def labels_add(api: ports.Api, seen: Iterable[NodeSeen], *, config: DeviceConfig, within_s: float = WRITING_S) -> int:
    """Label the nodes that have registered devices, where narrowing is on. Never taken off: a pod that was narrowed
    must find its node again when the kubelet restarts.

    The number of nodes written. Raises kube errors that are no answer.
    """
    settings = env.current()
    if not settings.narrowing or settings.strict_hami:
        return 0
    return _write(
        api,
        (
            calls.node_annotate(name=one.name, labels=dict.fromkeys(keys, LABEL_TRUE))
            for one in seen
            if (keys := [config.vendor(word).node_label for word in sorted(one.vendors - one.labelled)])
        ),
        within_s,
    )


def _unasked(seen: NodeSeen, config: DeviceConfig) -> list[str]:
    """The handshake keys on which no request stands, of the vendors that register."""
    return [
        vendor.handshake_key
        for vendor in config.vendors
        if vendor.handshake_key
        and vendor.word in seen.vendors
        and not handshake.decode(seen.handshakes.get(vendor.word, "")).requesting
    ]


def _write(api: ports.Api, patches: Iterator[calls.KubeCall[objects.Node]], within_s: float = WRITING_S) -> int:
    written = 0
    until = time.monotonic() + within_s
    for patch in patches:
        if written and time.monotonic() > until:
            break
        try:
            api.send(patch)
            written += 1
        except (errors.Conflict, errors.NotFound):
            continue  # it changed meanwhile: the next call sees how
        except errors.ApiError as refusal:
            log.warning("node_not_marked", path=patch.path, why=str(refusal))
    return written
