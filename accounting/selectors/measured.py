"""The latest measurements, beside what is asked for and held. They are a third figure, never the second.

A figure carries its age and its source; where there is none, the reason is told instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from django.db.models import QuerySet

from accounting import ledger
from accounting.models import Measurement, Node, Pod, Share
from accounting.selectors.access import Reach

HAMIS_PLUGIN: Final = "hami"
"""HAMi's plugin serves the node, and reports nothing."""
SILENT: Final = "silent"
"""The node's agent has reported nothing."""
OLD_S: Final = 900
"""Beyond three reports of the slowest usual period (5 min) a figure says nothing of now."""
DRIVERS_MIB: Final = 1024
"""What the driver itself may take of a card that nobody uses: about 450 MiB of a small one, more of a large one."""
_BACK: Final = timedelta(hours=1)
"""Shares that were not measured in the hour before the newest figure are over."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One device's or share's latest figures, in percent of the device. None where that was not measured.

    given_mib, given_percent: what the share was given, so that a figure has its denominator. pod: `namespace/name`, on
    devices.
    """

    uuid: str
    node: str
    at: datetime
    memory_used_mib: int | None
    memory_peak_mib: int | None
    core_used_percent: int | None
    pod_uid: str = ""
    container: str = ""
    pod: str = ""
    old: bool = False
    given_mib: int | None = None
    given_percent: int | None = None

    @property
    def core_of_share(self) -> int | None:
        """Measured cores, per hundred of the share's own: a share of 20 % that is fully busy is at 100."""
        return of_share(self.core_used_percent, self.given_percent or 0)


@dataclass(frozen=True, slots=True)
class DeviceMeasured:
    """What a device's page says. missing: why the whole has no figure, HAMIS_PLUGIN or SILENT; empty where it has."""

    whole: Measured | None
    shares: tuple[Measured, ...]
    missing: str

    def beyond_mib(self, held_mib: int) -> int:
        """How much more is in use now than is held and the driver takes: by something that the ledger does not know."""
        if self.whole is None or self.whole.old or self.whole.memory_used_mib is None:
            return 0
        more = self.whole.memory_used_mib - held_mib
        return more if more > DRIVERS_MIB else 0


def of_share(core_used_percent: int | None, held_core_percent: int) -> int | None:
    """Per hundred of what the share has of the device's cores. A share without a limit of cores has them all."""
    if core_used_percent is None:
        return None
    return core_used_percent * 100 // held_core_percent if held_core_percent else core_used_percent


def device_measured(*, uuid: str, node: str, reach: Reach) -> DeviceMeasured:
    """The latest of a device: the whole of it, and the shares that the reader may see."""
    found = _latest(Measurement.objects.filter(uuid=uuid, node=node))
    whole = next((one for one in found if not one.pod_uid), None)
    shares = [one for one in found if one.pod_uid and not one.old]
    return DeviceMeasured(whole, tuple(_named(shares, reach)), _missing(node) if whole is None else "")


def pod_measured(*, uid: str, node: str) -> tuple[tuple[Measured, ...], str]:
    """(the latest of a pod's shares, why there are none: HAMIS_PLUGIN or SILENT; empty for a pod on no node)."""
    found = _latest(Measurement.objects.filter(pod_uid=uid)) if uid else ()
    return found, "" if found or not node else _missing(node)


def newest(*, uuid: str = "", pod_uid: str = "") -> datetime | None:
    """When something was last measured of a device or a pod; for polls."""
    rows = Measurement.objects.filter(cluster=ledger.cluster_id())
    rows = rows.filter(pod_uid=pod_uid) if pod_uid else rows.filter(uuid=uuid)
    return rows.order_by("-slot", "-at").values_list("at", flat=True).first()


def _latest(rows: QuerySet[Measurement]) -> tuple[Measured, ...]:
    """The newest row of each share within the last hour before the newest of all."""
    rows = rows.filter(cluster=ledger.cluster_id())
    last = rows.order_by("-slot").values_list("slot", flat=True).first()
    if last is None:
        return ()
    old = ledger.database_time() - timedelta(seconds=OLD_S)
    found: dict[tuple[str, str, str], Measured] = {}
    for row in rows.filter(slot__gte=last - _BACK).order_by("slot"):
        found[row.uuid, row.pod_uid, row.container] = Measured(
            uuid=row.uuid,
            node=row.node,
            at=row.at,
            memory_used_mib=row.memory_used_mib,
            memory_peak_mib=row.memory_peak_mib,
            core_used_percent=row.core_used_percent,
            pod_uid=row.pod_uid,
            container=row.container,
            old=row.at < old,
        )
    return tuple(_with_given([found[key] for key in sorted(found)]))


def _with_given(found: Sequence[Measured]) -> Iterable[Measured]:
    """What each share was given, beside what it uses."""
    uids = {one.pod_uid for one in found if one.pod_uid}
    shares = Share.objects.filter(pod__cluster=ledger.cluster_id(), pod__uid__in=uids).select_related("pod")
    given: dict[tuple[str, str, str], tuple[int, int]] = {}
    for share in shares if uids else ():
        key = (share.uuid, share.pod.uid, share.container)
        mib, percent = given.get(key, (0, 0))
        given[key] = (mib + share.memory_mib, percent + share.core_percent)
    for one in found:
        mine = given.get((one.uuid, one.pod_uid, one.container))
        yield replace(one, given_mib=mine[0], given_percent=mine[1]) if mine else one


def _named(shares: Iterable[Measured], reach: Reach) -> Iterable[Measured]:
    """Those of pods in namespaces that the reader sees, with the pods' names."""
    shares = list(shares)
    rows = Pod.objects.filter(cluster=ledger.cluster_id(), uid__in={one.pod_uid for one in shares})
    names = {uid: (namespace, name) for uid, namespace, name in rows.values_list("uid", "namespace", "name")}
    for one in shares:
        namespace, name = names.get(one.pod_uid, ("", ""))
        if namespace and reach.sees(namespace):
            yield replace(one, pod=f"{namespace}/{name}")


def _missing(node: str) -> str:
    agents = Node.objects.filter(cluster=ledger.cluster_id(), name=node).values_list("agent", flat=True)
    return SILENT if any(agents) else HAMIS_PLUGIN
