"""Shares that are held and, by what was measured, not used; and shares of which nobody measures anything.

A share is idle when it has been held for the whole of some minutes, and in none of them were its cores measured busier
than a threshold. Without a measurement nothing is said of it. It must not know how that is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Final, NamedTuple

from django.db.models import Max

from accounting import ledger
from accounting.models import Measurement, Node, UsageInterval
from accounting.selectors import measured, usage_report
from accounting.selectors.access import Reach
from hami_platform.domain import cost, prices
from hami_platform.domain.devices import Device, Held
from hami_platform.domain.rows import PodRow
from hami_platform.domain.view import View

MINUTES: Final = 60
BUSY_PERCENT: Final = 5
"""Of the share: a process that waits for work still wakes up now and then."""
STATES: Final = frozenset({"bound", "running", "releasing"})


class Use(NamedTuple):
    """What was measured at most over the time asked about. None: not measured."""

    core_percent: int | None
    memory_mib: int | None


class Cost(NamedTuple):
    """share: of a device, 0…1; order: the same, to sort by. hour_cents: by currency, what an hour of it costs."""

    share: Fraction
    order: float
    hour_cents: Mapping[str, int]


class IdleShare(NamedTuple):
    """One pod's share of one device. A tuple, since there may be tens of thousands."""

    pod: PodRow
    node: str
    device: Device
    held: Held
    used: Use
    since: datetime
    cost: Cost

    @property
    def percent_of_device(self) -> int:
        """The share, per hundred of the device."""
        return round(self.cost.share * 100)

    @property
    def percent_of_share(self) -> int | None:
        """Measured cores, per hundred of the share's own."""
        return measured.of_share(self.used.core_percent, self.held.core_percent)


@dataclass(frozen=True, slots=True)
class Idle:
    """held, seen: shares, all and those measured. missing: (why, shares, example node) of those that are not.
    devices: idle shares, in whole devices. hour_cents: what an hour of them costs, by currency."""

    minutes: int
    below: int
    shares: tuple[IdleShare, ...]
    held: int
    seen: int
    missing: tuple[tuple[str, int, str], ...]
    devices: Fraction
    hour_cents: Mapping[str, int]


def idle(view: View, reach: Reach, *, minutes: int = MINUTES, below: int = BUSY_PERCENT) -> Idle:
    """Idle shares that the reader may see, the costliest first. below: per hundred of the share's own cores."""
    now = ledger.database_time()
    start = now - timedelta(minutes=minutes)
    held = list(_held(view, reach))
    uses = _uses(start)
    costs = _Costs(usage_report.price_rows(), now.date())
    since = _since(start)
    found: list[IdleShare] = []
    missing = []
    for pod, device, amount in held:
        used = uses.get((pod.node, device.uuid, pod.uid)) or _alone(view, pod, device, uses)
        if used is None or used.core_percent is None:
            missing.append(pod.node)
        elif _quiet(used.core_percent, amount, below) and (begun := since.get((pod.uid, device.uuid))) is not None:
            found.append(IdleShare(pod, pod.node, device, amount, used, begun, costs.of(device, amount)))
    found.sort(key=lambda one: (-one.cost.order, one.pod.namespace, one.pod.name))
    devices, cents = _sums(found)
    return Idle(
        minutes=minutes,
        below=below,
        shares=tuple(found),
        held=len(held),
        seen=len(held) - len(missing),
        missing=tuple(_missing(missing)),
        devices=devices,
        hour_cents=cents,
    )


class _Costs:
    """What shares are of their devices and cost, each kind worked out once: tens of thousands are of few kinds."""

    def __init__(self, table: Iterable[prices.PriceRow], day: date) -> None:
        self._table, self._day = tuple(table), day
        self._known: dict[tuple[str, str, int, int, int, int], Cost] = {}

    def of(self, device: Device, held: Held) -> Cost:
        total = (device.vendor, device.model, device.memory_mib, device.core_percent)
        key = (*total, held.memory_mib, held.core_percent)
        if key not in self._known:
            card = cost.Card(device.memory_mib, device.core_percent, 0, 0)
            share = cost.share_of(card, cost.Use(None, held.memory_mib, held.core_percent, 0, 0))
            price = prices.price_of(self._table, device.vendor, device.model, self._day)
            cents = {price.currency: round(price.hour_cents * share)} if price else {}
            self._known[key] = Cost(share, float(share), cents)
        return self._known[key]


def _sums(found: Iterable[IdleShare]) -> tuple[Fraction, dict[str, int]]:
    """(whole devices, cents an hour by currency) of all shares."""
    costs = {id(one.cost): one.cost for one in found}
    devices, cents = Fraction(), Counter[str]()
    for key, times in Counter(id(one.cost) for one in found).items():
        devices += costs[key].share * times
        cents.update({currency: amount * times for currency, amount in costs[key].hour_cents.items()})
    return devices, dict(sorted(cents.items()))


def _held(view: View, reach: Reach) -> Iterator[tuple[PodRow, Device, Held]]:
    """Node by node, since thousands of pods share what a node says of its devices."""
    seen = {name for name in view.namespaces if reach.sees(name)}
    for node, ids in view.pods_by_node.items():
        row = view.nodes.get(node)
        devices = {one.key: one for one in row.devices} if row is not None else {}
        for pod in map(view.pods.__getitem__, ids):
            if pod.state not in STATES or not (pod.namespace in seen or reach.sees(pod.namespace)):
                continue
            for key, amount in pod.held.items():
                if amount and key in devices:
                    yield pod, devices[key], amount


_Uses = Mapping[tuple[str, str, str], Use]
"""By (node, device, pod; empty for the whole device)."""


def _uses(start: datetime) -> _Uses:
    """The most of the time since."""
    rows = Measurement.objects.filter(cluster=ledger.cluster_id(), slot__gte=start - timedelta(minutes=10))
    keys = rows.order_by().values_list("node", "uuid", "pod_uid")
    most = keys.annotate(cores=Max("core_used_percent"), memory=Max("memory_peak_mib"))
    return {(node, uuid, pod): Use(cores, memory) for node, uuid, pod, cores, memory in most}


def _alone(view: View, pod: PodRow, device: Device, uses: _Uses) -> Use | None:
    """What was measured of the whole device, where the pod is the only one on it."""
    whole = uses.get((pod.node, device.uuid, ""))
    if whole is None:
        return None
    others = (view.pods[one] for one in view.pods_by_node.get(pod.node, ()) if one != pod.id)
    return None if any(other.held.get(device.key) for other in others) else whole


def _quiet(core_percent: int, held: Held, below: int) -> bool:
    share = measured.of_share(core_percent, held.core_percent)
    return share is not None and share < below


def _since(start: datetime) -> dict[tuple[str, str], datetime]:
    """(pod, device) → since when, of what has been held since before the start."""
    rows = UsageInterval.objects.filter(cluster=ledger.cluster_id(), ended_at=None, started_at__lte=start)
    return {(uid, uuid): at for uid, uuid, at in rows.values_list("pod_uid", "uuid", "started_at")}


def _missing(nodes: list[str]) -> Iterator[tuple[str, int, str]]:
    """Shares of which nothing is known, by why."""
    counts = Counter(nodes)
    agents = dict(Node.objects.filter(cluster=ledger.cluster_id()).values_list("name", "agent")) if counts else {}
    by_why: dict[str, list[str]] = {}
    for node in sorted(counts):
        by_why.setdefault(measured.SILENT if agents.get(node) else measured.HAMIS_PLUGIN, []).append(node)
    for why, names in sorted(by_why.items()):
        yield why, sum(counts[name] for name in names), names[0]
