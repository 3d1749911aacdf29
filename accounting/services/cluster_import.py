"""Takes over a cluster that HAMi ran: reads nodes, locks and pods once, writes them to the ledger, and says what it
found.

The report follows from the lists alone, so a dry run says what a real one says. Nothing is written to the cluster.
Whether the ledger may decide is not settled here: watcher or reconcile do that with a full compare of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accounting import ledger, live_view
from accounting.models import NodeLock
from accounting.services import imports, lock_repair, native_quotas, node_seen, nodes, observe, reconcile, seen
from accounting.services.node_seen import NodeSeen
from accounting.services.seen import PodSeen
from hami_platform.domain import devices, lifecycle
from hami_platform.domain.errors import WireError
from hami_platform.domain.rows import HOLDS_BY_STATUS
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.view import View
from hami_platform.domain.wire import node_lock
from hami_platform.kube import api as ports
from hami_platform.kube import calls

TAKEN, UNALIGNED, UNMANAGED, UNDECODABLE = "taken over", "unaligned", "unmanaged", "undecodable"

NOTES = {
    TAKEN: "",
    UNALIGNED: "fewer rows than containers: each counts as an app container's until the pod ends, never less",
    UNMANAGED: "asks for devices, but nobody wrote down which it has: they are not counted",
}


@dataclass(frozen=True, slots=True)
class NodeFound:
    """A node that registers devices. problem: why they cannot be read or used. new: the ledger did not have them."""

    name: str
    devices: int
    problem: str = ""
    new: bool = False


@dataclass(frozen=True, slots=True)
class PodFound:
    """A live bound pod. verdict: one of the four words above; note says what follows."""

    name: str
    node: str
    verdict: str
    note: str = ""
    new: bool = False


@dataclass(frozen=True, slots=True)
class LockFound:
    """A lock on a node. owner: namespace/name, or why there is none. age_s: by its writer's clock, None where that
    cannot be read."""

    node: str
    owner: str
    age_s: int | None
    new: bool = False


@dataclass(frozen=True, slots=True)
class Excess:
    """More is held on a device than it has. Amounts in MiB, core percent or slots, as `resource` says."""

    node: str
    uuid: str
    resource: str
    held: int
    capacity: int

    @property
    def over(self) -> int:
        """By how much."""
        return self.held - self.capacity


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What a cluster holds, by HAMi's own account of it."""

    nodes: tuple[NodeFound, ...]
    pods: tuple[PodFound, ...]
    locks: tuple[LockFound, ...]
    excesses: tuple[Excess, ...]

    @property
    def new(self) -> int:
        """How many of nodes, pods and locks the ledger did not have."""
        flags = [one.new for one in self.nodes] + [one.new for one in self.pods] + [one.new for one in self.locks]
        return sum(flags)

    @property
    def needs_a_person(self) -> bool:
        """Whether something is here that no program can put right."""
        odd = any(one.verdict in (UNMANAGED, UNDECODABLE) for one in self.pods)
        return odd or bool(self.excesses) or any(one.problem for one in self.nodes)


def cluster_import(api: ports.Api, *, config: DeviceConfig, dry_run: bool = False) -> ImportReport:
    """Read the cluster and, unless dry_run, write what it holds to the ledger. Importing twice is importing once.

    Raises kube errors, ledger.LedgerUnavailable.
    """
    before = live_view.live().refresh()
    shown = [one for one in reconcile.listed(api, calls.nodes()) if reconcile.managed(one)]
    found = [node_seen.from_object(one, config) for one in shown]
    quotas = reconcile.listed(api, calls.quotas())
    pods = [seen.from_object(one, config) for one in reconcile.listed(api, calls.pods())]
    report = _report(before, found, pods, config)
    if not dry_run:
        nodes.nodes_observe(found, config=config)
        native_quotas.native_quotas_observe(quotas, config=config, complete=True)
        observe.pods_observe(pods, config=config)
        lock_repair.locks_observe(found)  # after the pods, among which are the locks' owners
    return report


def _report(before: View, found: Sequence[NodeSeen], pods: Sequence[PodSeen], config: DeviceConfig) -> ImportReport:
    known = {one.name: {device.key: device for device in one.devices} for one in found}
    live = [one for one in pods if one.node and not one.terminal and observe.concerns(one, config)]
    stated = [(one, imports.stated(one, _models(known.get(one.node, {})), config)) for one in live]
    return ImportReport(
        tuple(_nodes(before, found)),
        tuple(sorted((_pod(before, one, said) for one, said in stated), key=lambda pod: pod.name)),
        tuple(_locks(found)),
        tuple(_excesses(known, stated)),
    )


def _models(found: Mapping[devices.DeviceKey, devices.Device]) -> dict[devices.DeviceKey, str]:
    return {key: device.model for key, device in found.items()}


def _nodes(before: View, found: Sequence[NodeSeen]) -> Iterable[NodeFound]:
    homes = Counter(device.uuid for one in found for device in one.devices)
    for one in sorted(found, key=lambda node: node.name):
        if not one.registers:
            continue
        row = before.nodes.get(one.name)
        had = {device.key for device in row.devices} if row is not None and not row.retired else set()
        usable = {device.key for device in one.devices if homes[device.uuid] == 1}
        twice = sorted(device.uuid for device in one.devices if homes[device.uuid] > 1)
        problem = "; ".join([one.problem] * bool(one.problem) + [f"{uuid} is on another node, too" for uuid in twice])
        yield NodeFound(one.name, len(one.devices), problem, new=row is None or row.retired or not usable <= had)


def _pod(before: View, pod: PodSeen, said: imports.Stated) -> PodFound:
    row = before.pod(pod.uid)
    verdict = UNMANAGED if said.unmanaged else TAKEN if said.aligned else UNALIGNED
    note = NOTES[verdict]
    if said.unknown:
        verdict, note = UNDECODABLE, f"{said.unknown}: node {pod.node} takes no new device pods while it lives"
    new = row is None or row.state not in HOLDS_BY_STATUS
    return PodFound(f"{pod.namespace}/{pod.name}", pod.node, verdict, note, new)


def _locks(found: Sequence[NodeSeen]) -> Iterable[LockFound]:
    rows = dict(NodeLock.objects.filter(cluster=ledger.cluster_id()).values_list("node", "value"))
    now_s = int(ledger.database_time().timestamp())
    for one in sorted(found, key=lambda node: node.name):
        if not one.lock:
            continue
        new = rows.get(one.name) != one.lock
        try:
            lock = node_lock.decode(one.lock)
        except WireError as fault:
            yield LockFound(one.name, f"unreadable: {fault}", None, new)
            continue
        owner = f"{lock.namespace}/{lock.name}" if lock.owned else "nobody: older writers left the name out"
        yield LockFound(one.name, owner, now_s - lock.at_s, new)


def _excesses(
    known: Mapping[str, Mapping[devices.DeviceKey, devices.Device]],
    stated: Iterable[tuple[PodSeen, imports.Stated]],
) -> Iterable[Excess]:
    total: dict[tuple[str, devices.DeviceKey], devices.Held] = {}
    for pod, said in stated:
        held = lifecycle.held(said.shares, pod.request.containers, pod.facts, aligned=said.aligned)
        for key, one in held.items():
            place = (pod.node, key)
            total[place] = total.get(place, devices.NOTHING) + one
    for (node, key), one in sorted(total.items(), key=lambda item: item[0]):
        device = known.get(node, {}).get(key)
        for resource, held_, capacity in _amounts(one, device):
            if held_ > capacity:
                yield Excess(node, key[1], resource, held_, capacity)


def _amounts(held: devices.Held, device: devices.Device | None) -> tuple[tuple[str, int, int], ...]:
    """(resource, held, capacity); a device that its node does not register has no capacity."""
    return (
        ("memory MiB", held.memory_mib, device.memory_mib if device else 0),
        ("core %", held.core_percent, device.core_percent if device else 0),
        ("slots", held.slots, device.slots if device else 0),
    )
