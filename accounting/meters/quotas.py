"""Limits and what counts against them: Kubernetes' ResourceQuotas under HAMi's names, and the platform's own quotas.

HAMi's are by resource name and in the units in which a ResourceQuota is written, both used and limit; HAMi itself shows
use in MiB where a vendor counts larger units. What counts is what decisions count: claims without a device, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from accounting.meters import cards
from accounting.selectors import access, quota_bars
from accounting.services import device_config
from hami_platform import env, metrics
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.view import View

Record = tuple[str, str]
"""(namespace, resource name)."""


def hami(view: View) -> Iterator[str]:
    """A record for each namespace and resource that is limited or used. limit="0" is also "no limit", as in HAMi: the
    metric of the limit alone tells the two apart."""
    config = device_config.device_config()
    limits, used = _limits(view, config), _used(view, config)
    records = sorted(limits.keys() | used.keys())
    samples = [(one, limits.get(one, 0), used.get(one, 0)) for one in records]
    spent = [(_labels(one, limit=limit), amount) for one, limit, amount in samples]
    yield from metrics.family("hami_resource_quota_used", "What counts against a namespace's ResourceQuota.", spent)
    bounds = [(_labels(one), limits[one]) for one in records if one in limits]
    yield from metrics.family("hami_resource_quota_limit", "The least limit of a namespace's ResourceQuotas.", bounds)
    if env.current().legacy_metrics:
        old = [(_old_labels(one, limit), amount) for one, limit, amount in samples]
        yield from metrics.family("QuotaUsed", "What counts against a namespace's ResourceQuota.", old)


def ours(view: View) -> Iterator[str]:
    """Every quota of the platform, as its page shows it. The unit is in the label `resource`."""
    bars = [one for one in quota_bars.all_bars(view, access.ALL) if not one.native]
    named = [
        (metrics.labels(quota=one.rule, scope=one.scope, scope_kind=one.scope_kind, resource=one.resource), one)
        for one in sorted(bars, key=lambda bar: (bar.rule, bar.resource))
    ]
    limits = [(of, one.limit) for of, one in named]
    yield from metrics.family("hami_platform_quota_limit", "A quota's limit.", limits)
    held = [(of, one.held) for of, one in named]
    yield from metrics.family("hami_platform_quota_used", "What counts against a quota.", held)


def _labels(record: Record, **more: object) -> str:
    return f"{metrics.labels(namespace=record[0], quota_name=record[1], **more)},{cards.ZONE}"


def _old_labels(record: Record, limit: float) -> str:
    return f"{metrics.labels(quotanamespace=record[0], quotaName=record[1], limit=limit)},{cards.ZONE}"


def _limits(view: View, config: DeviceConfig) -> dict[Record, float]:
    """The least of each record, in the resource's units."""
    named = {vendor.word: vendor for vendor in config.vendors}
    found: dict[Record, float] = {}
    for row in view.natives.values():
        vendor = named.get(row.vendor)
        if vendor is None:
            continue
        memory = row.resource == "memory_mib"
        name = vendor.resources.memory if memory else vendor.resources.cores
        limit = _in_units(row.limit, vendor.unit_mib if memory else 1)
        record = (row.namespace, name)
        found[record] = min(limit, found.get(record, limit))
    return found


def _used(view: View, config: DeviceConfig) -> dict[Record, float]:
    """Vendors that share a resource name share its record."""
    named = {vendor.word: vendor for vendor in config.vendors}
    found: defaultdict[Record, float] = defaultdict(int)
    for namespace, usage in view.usage.items():
        for (word, _), amounts in usage.items():
            vendor = named.get(word)
            if vendor is None:
                continue
            if vendor.resources.memory:
                found[namespace, vendor.resources.memory] += _in_units(amounts.memory_mib, vendor.unit_mib)
            if vendor.resources.cores:
                found[namespace, vendor.resources.cores] += amounts.core_percent
    return dict(found)


def _in_units(amount_mib: int, unit_mib: int) -> float:
    """Exact, also where a percentage of a device gave a part of a unit."""
    whole, rest = divmod(amount_mib, max(1, unit_mib))
    return whole if not rest else amount_mib / unit_mib
