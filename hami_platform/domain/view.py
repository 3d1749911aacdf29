"""The View: one immutable picture of a cluster's ledger, folded from rows, on which every decision is taken.

It must not know where rows come from. `fold` replaces rows by key and recomputes what follows from them; folding rows
in any interleaving gives the same View as building it from all rows at once (a law).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hami_platform.domain import lifecycle, quota
from hami_platform.domain.devices import NOTHING, Device, DeviceKey, Held
from hami_platform.domain.nodes import DeviceState, NodeState
from hami_platform.domain.quota import Amounts, Headroom, Limits, Rule, Selector
from hami_platform.domain.reasons import Reason
from hami_platform.domain.rows import (
    Changes,
    ClockRow,
    HoldRow,
    LockRow,
    NamespaceRow,
    NativeRow,
    NodeRow,
    PodRow,
    QuotaRow,
    TenantRow,
)
from hami_platform.domain.states import States
from hami_platform.domain.table import Table

Usage = Mapping[tuple[str, str], Amounts]
"""(vendor, model) → amounts in use; model "" is what claims hold."""

UNENFORCED = frozenset({"warn", "observe"})


@dataclass(frozen=True)
class View:
    """A cluster at one revision. All mappings are to be read only."""

    clock: ClockRow = ClockRow()
    nodes: Table[str, NodeRow] = field(default_factory=Table)
    holds: Table[int, HoldRow] = field(default_factory=Table)
    pods: Table[int, PodRow] = field(default_factory=Table)
    namespaces: Table[str, NamespaceRow] = field(default_factory=Table)
    tenants: Table[int, TenantRow] = field(default_factory=Table)
    quotas: Table[int, QuotaRow] = field(default_factory=Table)
    natives: Table[int, NativeRow] = field(default_factory=Table)
    locks: Table[str, LockRow] = field(default_factory=Table)

    states: States = field(default_factory=States)
    pods_by_uid: Table[str, int] = field(default_factory=Table)
    pods_by_node: Table[str, frozenset[int]] = field(default_factory=Table)
    usage: Mapping[str, Usage] = field(default_factory=dict)
    kinds: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)
    """Vendor → one device of each kind registered, for the lower bound of claims."""

    def pod(self, uid: str) -> PodRow | None:
        """The row of a pod by uid, or None."""
        pod_id = self.pods_by_uid.get(uid)
        return None if pod_id is None else self.pods[pod_id]

    @property
    def ready(self) -> bool:
        """Whether a full compare with the API server was done for this incarnation."""
        return bool(self.clock.incarnation) and self.clock.compared == self.clock.incarnation

    def headroom(self, namespace: str, *, without: int | None = None) -> Headroom:
        """The rules that bind a pod of this namespace, with what each scope uses now, `without` (a pod id) taken
        out."""
        return _headroom(self, namespace, without)

    def fold(self, changes: Changes) -> View:
        """This View with the changed rows in place."""
        return _fold(self, changes)


def _fold(old: View, changes: Changes) -> View:
    view = replace(
        old,
        clock=changes.clock or old.clock,
        nodes=old.nodes.replaced(changes.nodes),
        holds=old.holds.replaced(changes.holds),
        pods=old.pods.replaced(changes.pods),
        namespaces=old.namespaces.replaced(changes.namespaces),
        tenants=old.tenants.replaced(changes.tenants),
        quotas=old.quotas.replaced(changes.quotas),
        natives=old.natives.replaced(changes.natives),
        locks=old.locks.replaced(changes.locks),
    )
    if changes.pods:
        by_uid, by_node, usage = _reindexed(old, changes.pods)
        view = replace(
            view,
            pods_by_uid=old.pods_by_uid.replaced(by_uid),
            pods_by_node=old.pods_by_node.replaced(by_node),
            usage=usage,
        )
    touched = _touched_nodes(old, changes)
    if touched:
        view = replace(view, states=old.states.replaced(_states(view, touched)))
    return replace(view, kinds=_kinds(view)) if changes.nodes else view


def _kinds(view: View) -> dict[str, tuple[Device, ...]]:
    kept: dict[str, tuple[Device, ...]] = view.states.memo("kinds")
    names = sorted(view.states)
    for name in names:
        if name not in kept:
            kept[name] = lifecycle.one_of_each_kind(one.device for one in view.states[name].devices)
    return lifecycle.representatives(one for name in names for one in kept[name])


def _reindexed(
    old: View, changed: Mapping[int, PodRow | None]
) -> tuple[dict[str, int | None], dict[str, frozenset[int] | None], dict[str, Usage]]:
    """(what changes in pods by uid, and in pods by node; use per namespace) after some pods changed."""
    by_uid: dict[str, int | None] = {}
    by_node: dict[str, frozenset[int] | None] = {}
    usage = dict(old.usage)
    for pod_id, new in changed.items():
        before = old.pods.get(pod_id)
        if before is not None and new is not None and _counts_alike(before, new):
            continue
        if before is not None:
            if by_uid.get(before.uid, old.pods_by_uid.get(before.uid)) == pod_id:
                by_uid[before.uid] = None
            _move(by_node, old.pods_by_node, before.node, gone=pod_id)
            _charge(usage, before, sign=-1)
        if new is not None:
            if new.uid:
                by_uid[new.uid] = pod_id
            _move(by_node, old.pods_by_node, new.node, come=pod_id)
            _charge(usage, new, sign=1)
    return by_uid, by_node, usage


def _counts_alike(one: PodRow, other: PodRow) -> bool:
    """Whether a pod is found at the same places with either, and takes as much of the same limits."""
    same = (one.uid, one.node, one.namespace) == (other.uid, other.node, other.namespace)
    return same and one.charges == other.charges


def _move(
    changed: dict[str, frozenset[int] | None],
    old: Mapping[str, frozenset[int]],
    node: str,
    *,
    gone: int | None = None,
    come: int | None = None,
) -> None:
    if node:
        here = (changed[node] if node in changed else old.get(node)) or frozenset()
        changed[node] = (here - {gone} | ({come} if come is not None else set())) or None


def _charge(usage: dict[str, Usage], pod: PodRow, *, sign: int) -> None:
    if not pod.charges:
        return
    of_namespace = dict(usage.get(pod.namespace, {}))
    for charge in pod.charges:
        kind = (charge.vendor, charge.model)
        before = of_namespace.get(kind, Amounts())
        after = before + charge.amounts if sign > 0 else before - charge.amounts
        if after:
            of_namespace[kind] = after
        else:
            of_namespace.pop(kind, None)
    if of_namespace:
        usage[pod.namespace] = of_namespace
    else:
        usage.pop(pod.namespace, None)


def _touched_nodes(old: View, changes: Changes) -> set[str]:
    """Names of the nodes whose state follows from a changed row, and may be another one now."""
    touched = set(changes.nodes)
    touched.update(node for node, lock in changes.locks.items() if _stale(lock) != _stale(old.locks.get(node)))
    for pod_id, pod in changes.pods.items():
        before = old.pods.get(pod_id)
        if before is None or pod is None or not _weigh_alike(before, pod):
            touched.update(row.node for row in (pod, before) if row is not None and row.node)
    for hold_id, hold in changes.holds.items():
        touched.update(row.node for row in (hold, old.holds.get(hold_id)) if row is not None)
    return touched


def _weigh_alike(one: PodRow, other: PodRow) -> bool:
    """Whether a node is the same with either. Mostly so: a pod holds from its reservation on what it holds running."""
    return one.node == other.node and one.held == other.held and one.unknown_use == other.unknown_use


def _stale(lock: LockRow | None) -> bool:
    return lock is not None and lock.stale


def _states(view: View, names: Iterable[str]) -> dict[str, NodeState | None]:
    holds: dict[str, list[HoldRow]] = {}
    for hold in view.holds.values():
        if hold.in_force:
            holds.setdefault(hold.node, []).append(hold)
    return {name: _state(view, name, holds.get(name, ())) for name in names}


def _state(view: View, name: str, holds: Iterable[HoldRow]) -> NodeState | None:
    """What placement sees of one node; None when it offers nothing at all. holds: those in force on it."""
    node = view.nodes.get(name)
    if node is None or node.retired or not node.devices:
        return None
    held: dict[DeviceKey, Held] = {}
    for pod_id in sorted(view.pods_by_node.get(name, ())):
        _add(held, view.pods[pod_id].held)
    for hold in holds:
        _add(held, {hold.key: hold.held})
    devices = tuple(DeviceState(device, held.get(device.key, NOTHING)) for device in node.devices)
    return NodeState.of(name, devices, blocked=_blocked(view, node), pair_scores=node.pair_scores)


def _add(total: dict[DeviceKey, Held], more: Mapping[DeviceKey, Held]) -> None:
    for key, held in more.items():
        total[key] = total.get(key, NOTHING) + held


def _blocked(view: View, node: NodeRow) -> Reason | None:
    if node.accounting_unknown or any(view.pods[pod].unknown_use for pod in view.pods_by_node.get(node.name, ())):
        return Reason.NODE_ACCOUNTING_UNKNOWN
    return Reason.NODE_LOCKED if _stale(view.locks.get(node.name)) else None


def _headroom(view: View, namespace: str, without: int | None) -> Headroom:
    row = view.namespaces.get(namespace, NamespaceRow(namespace))
    own = view.pods.get(without) if without is not None else None
    scopes = [(namespace, {namespace})] + [
        (tenant.name, _namespaces_under(view, tenant.id)) for tenant in _ancestors(view, row.tenant)
    ]
    rules: list[tuple[Rule, Amounts]] = []
    for quotas, members in zip(_quotas_by_scope(view, namespace, row.tenant), (m for _, m in scopes), strict=True):
        rules += [(rule, _used(view, members, rule.selector, own)) for rule in quotas]
    rules += [(rule, _used(view, {namespace}, rule.selector, own)) for rule in native_rules(view, namespace)]
    return Headroom(tuple(rules), enforced=row.mode not in UNENFORCED)


def _ancestors(view: View, tenant: int | None) -> list[TenantRow]:
    """The tenant and those above it, nearest first. A loop (which services refuse) ends the walk."""
    found: list[TenantRow] = []
    while tenant is not None and tenant in view.tenants and view.tenants[tenant] not in found:
        found.append(view.tenants[tenant])
        tenant = found[-1].parent
    return found


def _namespaces_under(view: View, tenant: int) -> set[str]:
    return {
        row.name
        for row in view.namespaces.values()
        if any(above.id == tenant for above in _ancestors(view, row.tenant))
    }


def _quotas_by_scope(view: View, namespace: str, tenant: int | None) -> list[list[Rule]]:
    """Rules of the namespace, then of each tenant above it."""
    quotas = [row for row in view.quotas.values() if row.in_force]
    found = [[row.rule for row in quotas if row.namespace == namespace]]
    found += [[row.rule for row in quotas if row.tenant == above.id] for above in _ancestors(view, tenant)]
    return [sorted(rules, key=lambda rule: rule.name) for rules in found]


def native_rules(view: View, namespace: str) -> list[Rule]:
    """The namespace's native limits: per vendor and resource the minimum over all ResourceQuota objects."""
    least: dict[tuple[str, str], NativeRow] = {}
    for row in view.natives.values():
        if row.namespace == namespace:
            kind = (row.vendor, row.resource)
            if kind not in least or (row.limit, row.object_name) < (least[kind].limit, least[kind].object_name):
                least[kind] = row
    return [
        Rule(f"{namespace}/resourcequota/{row.object_name}", Selector(vendor), Limits(**{resource: row.limit}))
        for (vendor, resource), row in sorted(least.items())
    ]


def _used(view: View, namespaces: Iterable[str], selector: Selector, own: PodRow | None) -> Amounts:
    total = Amounts()
    for name in namespaces:
        for (vendor, model), amounts in view.usage.get(name, {}).items():
            if quota.covers(selector, vendor, model):
                total += amounts
        if own is not None and own.namespace == name:
            for charge in own.charges:
                if quota.covers(selector, charge.vendor, charge.model):
                    total -= charge.amounts
    return total
