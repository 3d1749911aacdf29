"""The steps of a vector: each is carried out by the product, and its result spelled in the vectors' terms.

Must not know: what the result should be.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from accounting import live_view
from accounting.services import native_quotas, node_seen, nodes, observe
from hami_platform.domain import quota
from hami_platform.domain.errors import DomainError
from hami_platform.domain.locks import Owner
from hami_platform.domain.requests import DeviceRequest
from hami_platform.domain.vendors import parse
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.env import current
from hami_platform.kube import calls, errors
from scheduler_ext import node_lock
from scheduler_ext.conformance import admission, codecs, filtering, inventory, vectors
from scheduler_ext.conformance import world as worlds
from scheduler_ext.conformance.world import World

Json = dict[str, Any]
Operation = Callable[[World, Json], Any]


class UnknownStep(ValueError):
    """A step that this runner does not know; the vector's or the runner's fault."""


def carry_out(world: World, step: Mapping[str, Any]) -> Any:
    """The result of one step; `{"panic": true}` with the fault where the product raises."""
    operation = OPERATIONS.get(step["op"])
    if operation is None:
        raise UnknownStep(f"op {step['op']!r}")
    world.told.clear()
    world.decided.clear()
    world.cluster.faults = step.get("fail") or {}
    try:
        return operation(world, vectors.filled(dict(step), world.now))
    except Exception as fault:  # noqa: BLE001  whatever it is, it is this step's result
        return {"panic": True, "fault": f"{type(fault).__name__}: {fault}"}
    finally:
        world.cluster.faults = {}


# -- pods -------------------------------------------------------------------------------------------------------------


def pod_add(world: World, step: Json) -> Json:
    """A pod object appears."""
    world.pod(world.cluster.put("pods", step["pod"]))
    return world.state()


def pod_update(world: World, step: Json) -> Json:
    """A pod object changes. With container statuses it must be on a node: then it is bound before."""
    namespace, name = worlds.split(step["podRef"])
    status = (step["merge"] or {}).get("status") or {}
    if status.get("initContainerStatuses") or status.get("containerStatuses") or status.get("phase") == "Running":
        world.put_on_node(world.cluster.objects["pods", namespace, name])
    world.pod(world.cluster.merge("pods", name, namespace, step["merge"]))
    return world.state()


def pod_delete(world: World, step: Json) -> Json:
    """A pod object is gone."""
    namespace, name = worlds.split(step["podRef"])
    gone = world.cluster.drop("pods", name, namespace)
    if gone is not None:
        observe.pods_gone([gone["metadata"]["uid"]])
    return world.state()


def usage(world: World, step: Json) -> Json:
    """Nothing happens."""
    return world.state()


def restart(world: World, step: Json) -> Json:
    """A new process."""
    world.restart()
    return world.state()


def ask(world: World, step: Json) -> Json:
    """What a pod asks for, per container."""
    pod = world.mutated if step["pod"] == filtering.MUTATED else step["pod"]
    if pod is None:
        return {"skipped": filtering.REFUSED}
    try:
        found = parse.pod_request(pod, world.config)
    except DomainError as fault:
        return {"error": str(fault)}
    return {
        "requests": [
            {
                one.vendor: {
                    "nums": one.count, "type": one.vendor, "mem": one.memory_mib, "cores": one.core_percent,
                    "pct": _percent(one, world.config),
                }
                for one in container.devices
            }
            for container in found.containers
        ]
    }  # fmt: skip


def _percent(one: DeviceRequest, config: DeviceConfig) -> int:
    """HAMi's spelling of the percentage. None is 101 only where a vendor has a resource for it."""
    vendor = config.vendor(one.vendor)
    if not one.memory_mib and vendor.defaults.spelled_percent is not None:
        return vendor.defaults.spelled_percent
    absent = codecs.NO_PERCENT if vendor.resources.percent else 0
    return absent if one.memory_percent is None else one.memory_percent


# -- binding ----------------------------------------------------------------------------------------------------------


def bind(world: World, step: Json) -> Json:
    """`/bind`."""
    namespace, name = worlds.split(step["podRef"])
    pod = world.find(step["podRef"])
    if pod is None and world.refused:
        return {"skipped": filtering.REFUSED}
    uid = step.get("uid") or (pod["metadata"]["uid"] if pod else "")
    before = dict((pod or {}).get("metadata", {}).get("annotations") or {})
    node_before = world.annotations("nodes")
    was_bound = bool(pod and (pod.get("spec") or {}).get("nodeName"))
    found: Json = {"error": world.bind(namespace, name, uid, step["node"])}
    events = [f"{one.type} {one.reason} {one.message}" for one in world.told]
    after = world.find(step["podRef"])
    found |= {"events": events} if events else {}
    if pod is not None and after is not None:
        notes = worlds.changed(before, (after.get("metadata") or {}).get("annotations") or {})
        notes = {key: value for key, value in notes.items() if key not in world.shown.get(uid, ())}
        found |= {"annotations": notes} if notes else {}
        node = (after.get("spec") or {}).get("nodeName")
        found |= {"bound": {name: node}} if node and not was_bound else {}
    return found | _node_annotations(world, node_before) | world.state()


def _node_annotations(world: World, before: Mapping[str, Mapping[str, str]]) -> Json:
    after = world.annotations("nodes")
    notes = {name: worlds.changed(before.get(name, {}), after[name]) for name in after}
    notes = {name: changes for name, changes in notes.items() if changes}
    return {"nodeAnnotations": notes} if notes else {}


def lock_node(world: World, step: Json) -> Json:
    """HAMi's node lock is taken for a pod."""
    before = world.annotations("nodes")
    namespace, name = worlds.split(step["podRef"])
    try:
        pod = world.cluster.send(calls.pod_get(namespace=namespace, name=name))
        taken = _lock(world).take(step["node"], pod)
        result = "ok" if isinstance(taken, node_lock.Taken) else "contention"
    except errors.KubeError:
        result = "error"
    return {"result": result} | _node_annotations(world, before)


def release_node(world: World, step: Json) -> Json:
    """It is given back."""
    before = world.annotations("nodes")
    try:
        _lock(world).release(step["node"], Owner(*worlds.split(step["podRef"])))
        result = "ok"
    except errors.KubeError:
        result = "error"
    return {"result": result} | _node_annotations(world, before)


def _lock(world: World) -> node_lock.AnnotationLock:
    return node_lock.AnnotationLock(
        world.cluster, node_lock.Sightings(), timeout_s=current().node_lock_timeout_s
    )  # fmt: skip


# -- quota ------------------------------------------------------------------------------------------------------------


def quota_add(world: World, step: Json) -> Json:
    """A ResourceQuota appears."""
    world.quota(step["quota"])
    return _quota_state(world)


def quota_delete(world: World, step: Json) -> Json:
    """It goes."""
    world.quota_gone(step["quota"])
    return _quota_state(world)


def quota_update(world: World, step: Json) -> Json:
    """It changes."""
    world.quota(step["new"])
    return _quota_state(world)


def _quota_state(world: World) -> Json:
    return {"quota": world.state().get("quota", {})}


def quota_fit(world: World, step: Json) -> Json:
    """Whether a namespace has room for an amount. The factor belongs to the vendor's configuration: it is set there."""
    factor = max(1, step.get("factor") or 0)
    _quotas_read(world, _with_unit(world.config, step["vendor"], factor))
    headroom = live_view.live().refresh().headroom(step["namespace"])
    charge = quota.Charge(step["vendor"], "", quota.Amounts(0, step["mem"], step["cores"]), step["mem"])
    fits = quota.excess(headroom, [charge]) is None
    _quotas_read(world, world.config)
    return {"fits": fits}


def _with_unit(config: DeviceConfig, word: str, unit_mib: int) -> DeviceConfig:
    vendors = (dataclasses.replace(one, unit_mib=unit_mib) if one.word == word else one for one in config.vendors)
    return DeviceConfig(tuple(vendors))


def _quotas_read(world: World, config: DeviceConfig) -> None:
    objects = world.cluster.all("resourcequotas")
    native_quotas.native_quotas_observe(objects, config=config, complete=True)


# -- nodes ------------------------------------------------------------------------------------------------------------


def register(world: World, step: Json) -> Json:
    """One registration pass."""
    before = world.annotations("nodes")
    world.register()
    return {"nodes": inventory.nodes(world.view)} | _node_annotations(world, before)


def node_patch(world: World, step: Json) -> Json:
    """A node object changes; the next pass sees it."""
    world.cluster.merge("nodes", step["node"], "", step["merge"])
    return {}


def node_update(world: World, step: Json) -> Json:
    """A node object is replaced, or changed by a patch; the next pass sees it."""
    if isinstance(step["node"], str):
        return node_patch(world, step)
    world.cluster.put("nodes", step["node"])
    return {}


def node_delete(world: World, step: Json) -> Json:
    """A node object is gone."""
    world.cluster.drop("nodes", step["node"])
    nodes.nodes_gone([step["node"]])
    return world.state()


def node_devices(world: World, step: Json) -> Json:
    """The devices of one vendor that a node object registers."""
    found = node_seen.from_object(step["node"], world.config)
    made_up = world.config.vendor(step["vendor"]).decode is not None
    named = {"vendor": step["vendor"]} if made_up else {}  # HAMi names it on devices that no plugin registered
    rows = [inventory.row(one) | named for one in found.devices if one.vendor == step["vendor"]]
    if step["vendor"] in found.unreadable or not rows:
        return {"error": found.problem or "no device is registered"}
    return {"devices": rows}


def health(world: World, step: Json) -> Json:
    """Whether a vendor's plugin on a node counts as alive, by its registered devices: one is made up where none is.

    Every pass compares all devices, so there is no update to skip.
    """
    node = world.cluster.put("nodes", inventory.registered(step["node"], world.config.vendor(step["vendor"])))
    name = node["metadata"]["name"]
    before = dict(node["metadata"].get("annotations") or {})
    world.register()
    after = world.cluster.objects["nodes", "", name]["metadata"].get("annotations") or {}
    notes = worlds.changed(before, after)
    gone = inventory.gone_vendors(name)
    return {"healthy": step["vendor"] not in gone, "needUpdate": True} | ({"nodeAnnotations": notes} if notes else {})


OPERATIONS: dict[str, Operation] = {
    "webhook": admission.webhook, "requests": ask, "filter": filtering.filter_pod, "podAdd": pod_add,
    "podUpdate": pod_update, "podDelete": pod_delete, "usage": usage, "restart": restart, "register": register,
    "nodePatch": node_patch, "nodeUpdate": node_update, "nodeDelete": node_delete, "bind": bind,
    "lockNode": lock_node, "releaseNode": release_node, "quotaAdd": quota_add, "quotaDelete": quota_delete,
    "quotaUpdate": quota_update, "quotaFit": quota_fit, "nodeDevices": node_devices, "health": health,
    "http": admission.http, "codec": codecs.codec,
}  # fmt: skip
