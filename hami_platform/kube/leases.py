"""Keeping a Lease object fresh: how an agent says that it is alive without touching its node.

Must not know: elections (the platform's leadership is a database lease), devices.
"""

from __future__ import annotations

from datetime import UTC, datetime

from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors, objects

AGENTS_NAMESPACE = "kube-node-lease"
"""Where node agents renew their leases. Exists in every cluster; the kubelet's own heartbeat is here under the node's
bare name."""

_AGENT_PREFIX = "platform.hami.io-agent-"


def agent_lease(node: str) -> str:
    """Name of the agent's lease for a node, in AGENTS_NAMESPACE."""
    return _AGENT_PREFIX + node


def agent_node(lease: str) -> str:
    """The node whose agent renews the lease of this name; empty for a lease of anything else."""
    return lease.removeprefix(_AGENT_PREFIX) if lease.startswith(_AGENT_PREFIX) else ""


def micro_time(at: datetime) -> str:
    """RFC 3339 with microseconds in UTC, as leases store it (meta/v1 MicroTime)."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def renew(api: ports.Api, *, namespace: str, name: str, holder: str, duration_s: int, now: datetime) -> objects.Lease:
    """Stamp the lease with `now`, making it if need be. Raises errors.KubeError.

    A Conflict means that another process stamps the same lease: two agents on one node.
    """
    try:
        lease = api.send(calls.lease_get(namespace=namespace, name=name))
    except errors.NotFound:
        spec = _spec(objects.LeaseSpec(), holder, duration_s, now)
        return api.send(calls.lease_create(namespace=namespace, name=name, spec=spec))
    spec = _spec(lease.spec, holder, duration_s, now)
    revision = lease.metadata.resource_version
    return api.send(calls.lease_update(namespace=namespace, name=name, resource_version=revision, spec=spec))


def _spec(old: objects.LeaseSpec, holder: str, duration_s: int, now: datetime) -> objects.LeaseSpec:
    """The next stamp; a new holder counts as a transition."""
    stamp, moved = micro_time(now), old.holder_identity != holder
    return objects.LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=duration_s,
        acquire_time=stamp if moved else old.acquire_time,
        renew_time=stamp,
        lease_transitions=(old.lease_transitions or 0) + (moved and old.holder_identity is not None),
    )
