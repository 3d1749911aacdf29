"""Brings a reservation to cards that the kubelet can give, for pods that ask to be aligned with their NUMA node.

Must not know: HTTP, gRPC, how rows are remembered. Source of the annotation and its words: HAMi, newer than v2.10.0.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from deviceplugin import meters, refit, rows
from deviceplugin.refusals import Reason, Refusal
from hami_platform import logs
from hami_platform.domain.vendors import nvidia

NUMA_ALIGNMENT = "hami.io/numa-alignment"
STRICT = "strict"
BEST_EFFORT = "best-effort"

log = logs.get(__name__)


class Mover(Protocol):
    """See refit.Scheduler."""

    def move(self, ask: refit.Ask) -> None:
        """Raises refit.RefitFailed."""
        ...


class Aligner:
    """mover None: nobody can be asked, which fails only pods that insist."""

    def __init__(self, node: str, mover: Mover | None) -> None:
        self._node = node
        self._mover = mover

    def align(self, row: rows.Row, allowed: Collection[str]) -> bool | Refusal:
        """True: the pod has other cards now and must be read again. False: it keeps what was reserved."""
        wish = row.pod.metadata.annotations.get(NUMA_ALIGNMENT, "").strip().lower()
        reserved = {device.uuid for device in row.devices}
        if wish not in (STRICT, BEST_EFFORT) or reserved <= set(allowed):
            return False
        try:
            self._move(row, allowed)
        except refit.RefitFailed as error:
            meters.REFITS.labels("failed").inc()
            log.warning("refit_failed", pod=rows.named(row.pod), container=row.container.name, error=str(error))
            return self._unmoved(row, str(error)) if wish == STRICT else False
        meters.REFITS.labels("succeeded").inc()
        log.info("refitted", pod=rows.named(row.pod), container=row.container.name, allowed=",".join(sorted(allowed)))
        return True

    def _move(self, row: rows.Row, allowed: Collection[str]) -> None:
        if self._mover is None:
            raise refit.RefitFailed("no scheduler is named that could move it (HAMI_SCHEDULER_ENDPOINT)")
        self._mover.move(
            refit.Ask(
                pod_uid=row.pod.metadata.uid,
                pod_namespace=row.pod.metadata.namespace,
                pod_name=row.pod.metadata.name,
                node_name=self._node,
                container_index=row.index,
                container_name=row.container.name,
                device_type=nvidia.WORD,
                allowed=tuple(sorted(allowed))[: refit.MOST_CARDS],
            )
        )

    def _unmoved(self, row: rows.Row, why: str) -> Refusal:
        return Refusal(
            Reason.NUMA,
            f"pod {rows.named(row.pod)}, container {row.container.name}: it asks for strict NUMA alignment, "
            f"and its reservation cannot be moved to cards that the kubelet offers: {why}",
            row.pod,
        )
