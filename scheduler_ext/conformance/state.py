"""What the ledger holds, in the vectors' terms: use per device, use and limit per namespace and resource.

Read from the View, as decisions are. A claim without devices is not in it: HAMi knows no claims.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hami_platform.domain.devices import Held
from hami_platform.domain.nodes import DeviceState
from hami_platform.domain.reasons import Reason
from hami_platform.domain.vendors.base import DeviceConfig, Vendor
from hami_platform.domain.view import View, native_rules

Json = dict[str, Any]
MIG = "mig"


def state(view: View, config: DeviceConfig) -> Json:
    """`usage` always; `quota` where anything is limited or used."""
    limits = quota(view, config)
    return {"usage": usage(view)} | ({"quota": limits} if limits else {})


def usage(view: View) -> Json:
    """Node → device → what is held; healthy devices without use are left out, and nodes without any other."""
    found = {
        name: {one.device.uuid: _device(one) for one in node.devices if one.held or not _healthy(one)}
        for name, node in view.states.items()
    }
    return {name: used for name, used in found.items() if used}


def _healthy(one: DeviceState) -> bool:
    """Also not healthy: a device whose MIG mode and holders contradict each other."""
    return one.unusable is not Reason.CARD_NOT_HEALTH


def _device(one: DeviceState) -> Json:
    held: Held = one.held
    found: Json = {"used": held.slots, "mem": held.memory_mib, "cores": held.core_percent}
    if held.mig and one.device.mode == MIG:
        found["mig"] = sorted(f"{use.profile}@{use.placement.start}+{use.placement.size}" for use in held.mig)
    return found if _healthy(one) else found | {"health": False}


def quota(view: View, config: DeviceConfig) -> Json:
    """Namespace → resource → use by placed pods, and the limit of the namespace's ResourceQuota objects."""
    used: dict[tuple[str, str], Held] = defaultdict(Held)
    for pod in view.pods.values():
        for (word, _), held in pod.held.items():
            used[pod.namespace, word] += held
    limits = {
        (namespace, rule.selector.vendor, name): getattr(rule.limits, name)
        for namespace in {row.namespace for row in view.natives.values()}
        for rule in native_rules(view, namespace)
        for name in ("memory_mib", "core_percent")
        if getattr(rule.limits, name) is not None
    }
    found: dict[str, Json] = defaultdict(dict)
    for namespace in sorted({key[0] for key in (*used, *limits)}):
        for vendor in config.vendors:
            for resource, name, unit in _resources(vendor):
                amount = getattr(used[namespace, vendor.word], name)
                limit = limits.get((namespace, vendor.word, name))
                if amount or limit is not None:
                    entry = {"used": amount} | ({} if limit is None else {"limit": limit // unit})
                    found[namespace][resource] = entry
    return {namespace: resources for namespace, resources in found.items() if resources}


def _resources(vendor: Vendor) -> list[tuple[str, str, int]]:
    """(resource name, amount's name, MiB or percent in one unit of a limit)."""
    pairs = (
        (vendor.resources.memory, "memory_mib", max(1, vendor.unit_mib)),
        (vendor.resources.cores, "core_percent", 1),
    )
    return [one for one in pairs if one[0]]
