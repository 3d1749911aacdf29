"""Where a fix is done and who may do it: the form that leads there, or the command.

Looks up the ids that addresses need, once for all fixes. Must not know: whether a fix helps.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from urllib.parse import urlencode

from django.urls import reverse

from accounting import ledger
from accounting.models import Device
from accounting.selectors import holders
from accounting.selectors.access import Reach
from hami_platform.domain import fixes
from hami_platform.domain.errors import ConfigError
from hami_platform.domain.fixes import Kind, Step
from hami_platform.domain.requests import DeviceRequest, PodRequest
from hami_platform.domain.rows import PodRow, QuotaRow
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.view import View

NATIVE = "/resourcequota/"
_DEVICE_KINDS = (Kind.CORDON, Kind.RESERVED, Kind.HEALTH)


class Links:
    """The links of one explanation."""

    def __init__(
        self, view: View, reach: Reach, config: DeviceConfig, namespace: str, request: PodRequest,
        found: Iterable[fixes.Fix],
    ) -> None:  # fmt: skip
        self._view, self._reach, self._config = view, reach, config
        self._namespace, self._request = namespace, request
        self._steps = [step for fix in found for step in fix.steps]

    def hides(self, step: Step) -> bool:
        """Whether the step names a pod that the reader may not see."""
        row = self._pod(step)
        return row is not None and not self._reach.sees(row.namespace)

    def may(self, step: Step) -> bool:
        """Whether the reader herself may do it here. What owners do happens in their manifests."""
        if step.role == fixes.OPERATOR:
            return self._reach.operates
        return step.role == fixes.TENANT_ADMIN and self._reach.sets_quota(self._namespace) and self._quota(step) != ()

    def url(self, step: Step) -> str:
        """The form in which the step is done, or the page that shows what it is about; empty: none."""
        if step.kind is Kind.QUOTA:
            rows = self._quota(step)
            query = urlencode({step.target[1]: step.value})
            return f"{reverse('console:quota-edit', args=[rows[0].id])}?{query}" if rows and rows[0].id > 0 else ""
        if step.kind in _DEVICE_KINDS:
            return self._device(step)
        if step.kind is Kind.HOLD:
            return reverse("admin:accounting_hold_change", args=step.target) if self._reach.operates else ""
        if step.kind is Kind.LOCK:
            return reverse("console:node", args=step.target)
        row = self._pod(step)
        return reverse("console:pod", args=[holders.pod_key(row)]) if row is not None and row.uid else ""

    def command(self, step: Step) -> str:
        """What to type or to write into the manifest; empty: nothing."""
        if step.kind is Kind.QUOTA and NATIVE in step.target[0]:
            return f"kubectl edit resourcequota {step.target[0].rpartition('/')[2]} -n {self._namespace}"
        if step.kind is Kind.CORDON and self._found.get(step.target, (0, False))[1]:
            return f"kubectl annotate node {step.target[0]} hami.io/device-cordon-"
        if step.kind in (Kind.PREEMPT, Kind.MOVE) and (row := self._pod(step)) is not None:
            return f"kubectl delete pod {row.name} -n {row.namespace}"
        if step.kind in (Kind.MEMORY, Kind.CORES, Kind.DEVICES):
            return self._limit(step)
        return ""

    def _pod(self, step: Step) -> PodRow | None:
        if step.kind not in (Kind.PREEMPT, Kind.MOVE, Kind.WAIT):
            return None
        row: PodRow | None = self._view.pods.get(int(step.target[0]))
        return row

    def _quota(self, step: Step) -> tuple[QuotaRow, ...]:
        """The quotas of the step's name that bind the namespace; none for a native one."""
        rows = (row for row in self._view.quotas.values() if row.rule.name == step.target[0] and row.in_force)
        return tuple(row for row in rows if row.namespace in (None, self._namespace))

    def _device(self, step: Step) -> str:
        found = self._found.get(step.target)
        if found is not None and self._reach.operates and step.kind is not Kind.HEALTH:
            return reverse("admin:accounting_device_change", args=[found[0]])
        return reverse("console:device", args=[step.target[2]])

    @cached_property
    def _found(self) -> dict[tuple[str, ...], tuple[int, bool]]:
        """(node, vendor, uuid) → (id, whether its cordon is the node's annotation), of all devices that are named."""
        uuids = {step.target[2] for step in self._steps if step.kind in _DEVICE_KINDS}
        if not uuids:
            return {}
        rows = Device.objects.filter(cluster=ledger.cluster_id(), uuid__in=uuids)
        values = rows.values_list("node__name", "vendor", "uuid", "pk", "cordoned_on_node")
        return {(node, vendor, uuid): (pk, on_node) for node, vendor, uuid, pk, on_node in values}

    def _limit(self, step: Step) -> str:
        """The line of the manifest, where one vendor is asked."""
        words = self._request.vendors
        if len(words) != 1 or step.value is None:
            return ""
        name, unit = self._resource(words[0], step.kind)
        return f"{name}: {step.value // unit}" if name and step.value >= unit else ""

    def _resource(self, word: str, kind: Kind) -> tuple[str, int]:
        """(resource name, how much one of it is)."""
        try:
            vendor = self._config.vendor(word)
        except ConfigError:
            return "", 1
        if kind is Kind.DEVICES:
            return vendor.resources.count, 1
        if kind is Kind.CORES:
            return vendor.resources.cores, 1
        if any(_in_percent(ask) for container in self._request.containers for ask in container.devices):
            return vendor.resources.percent, 1
        return vendor.resources.memory, vendor.unit_mib


def _in_percent(ask: DeviceRequest) -> bool:
    return ask.memory_mib <= 0 and ask.memory_percent is not None
