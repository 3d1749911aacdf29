"""Says that the agent lives, as a Lease that is renewed.

Never a node annotation: every change of a node makes kube-scheduler try all waiting pods again.
Must not know: cards.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from deviceplugin import meters
from hami_platform import logs
from hami_platform.kube import api, calls, errors, leases, objects

NAMESPACE = leases.AGENTS_NAMESPACE
PERIOD_S = 15.0
RETRY_S = 5.0
DURATION_S = 40
"""Three missed renewals; a node's cards are taken out after 60 s of silence (design: Liveness)."""

log = logs.get(__name__)


class Heartbeat:
    """A step for a Loop."""

    def __init__(self, node: str, kube: api.Api, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._node = node
        self._name = leases.agent_lease(node)
        self._kube = kube
        self._now = now
        self._last: objects.Lease | None = None
        self.failure = "the lease was not renewed yet"

    def step(self) -> float:
        """Renew the lease; look it up or make it when that is not possible."""
        try:
            self._last = self._renewed()
        except errors.KubeError as error:
            log.warning("heartbeat_failed", node=self._node, error=str(error))
            self._last, self.failure = None, f"the lease cannot be renewed: {error}"
            return RETRY_S
        self.failure = ""
        meters.RENEWED_S.set(self._now().timestamp())
        return PERIOD_S

    def _renewed(self) -> objects.Lease:
        try:
            lease = self._last or self._kube.send(calls.lease_get(namespace=NAMESPACE, name=self._name))
        except errors.NotFound:
            return self._kube.send(calls.lease_create(namespace=NAMESPACE, name=self._name, spec=self._spec(None)))
        call = calls.lease_update(
            namespace=NAMESPACE,
            name=self._name,
            resource_version=lease.metadata.resource_version,
            spec=self._spec(lease),
        )
        return self._kube.send(call)

    def _spec(self, lease: objects.Lease | None) -> objects.LeaseSpec:
        now = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return objects.LeaseSpec(
            holder_identity=self._node,
            lease_duration_seconds=DURATION_S,
            acquire_time=lease.spec.acquire_time if lease else now,
            renew_time=now,
        )
