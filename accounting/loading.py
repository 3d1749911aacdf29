"""Reads ledger rows into the domain's plain values: all of them, or those that the Journal names.

It must not decide anything. Only columns that a View needs are read, as tuples: no model instances on hot paths.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from django.db.models import ExpressionWrapper, F, TextField

from accounting import loading_rules, statements
from accounting.models import (
    Clock,
    Device,
    Hold,
    Namespace,
    NativeQuota,
    Node,
    NodeLock,
    Pod,
    PodState,
    Quota,
    Share,
    Tenant,
)
from hami_platform.domain import devices, quota, rows
from hami_platform.domain.wire import pod_facts, pod_request

T = TypeVar("T")

Keys = Mapping[str, set[str]]
"""Journal kind → keys."""

NODE_KINDS = ("node", "device")


def everything(cluster: int) -> rows.Changes:
    """Every row of the cluster's ledger. Call inside `ledger.snapshot()`."""
    return rows.Changes(
        clock=clock_row(cluster),
        nodes=_nodes(Node.objects.filter(cluster=cluster)),
        holds=_holds(Hold.objects.filter(cluster=cluster)),
        pods=_pods(Pod.objects.filter(cluster=cluster).exclude(state=PodState.ENDED)),
        namespaces=loading_rules.namespaces(Namespace.objects.filter(cluster=cluster)),
        tenants=loading_rules.tenants(Tenant.objects.filter(cluster=cluster)),
        quotas=loading_rules.quotas(Quota.objects.filter(cluster=cluster)),
        natives=loading_rules.natives(NativeQuota.objects.filter(cluster=cluster)),
        locks=_locks(NodeLock.objects.filter(cluster=cluster)),
    )


def changed(cluster: int, keys: Keys, clock: rows.ClockRow) -> rows.Changes:
    """The rows that the Journal names, as they are now; None for those that are gone (or pods that have ended)."""
    nodes = {key.split("/", 1)[0] for kind in NODE_KINDS for key in keys.get(kind, ())}
    pods, locks = _changed_pods_and_locks(cluster, _ids(keys, "pod"), keys.get("lock", set()))
    return rows.Changes(
        clock=clock,
        nodes=_named(_nodes, Node, cluster, nodes, "name"),
        holds=_named(_holds, Hold, cluster, _ids(keys, "hold")),
        pods=pods,
        namespaces=_named(loading_rules.namespaces, Namespace, cluster, keys.get("namespace", set()), "name"),
        tenants=_named(loading_rules.tenants, Tenant, cluster, _ids(keys, "tenant")),
        quotas=_named(loading_rules.quotas, Quota, cluster, _ids(keys, "quota")),
        natives=_named(loading_rules.natives, NativeQuota, cluster, _ids(keys, "native")),
        locks=locks,
    )


def _ids(keys: Keys, kind: str) -> set[int]:
    return {int(key) for key in keys.get(kind, ())}


def _named(read: Any, model: Any, cluster: int, keys: set[Any], column: str = "pk") -> dict[Any, Any]:
    """The rows of these keys, None for those that are gone. No query where nothing is named."""
    if not keys:
        return {}
    found = read(model.objects.filter(**{"cluster": cluster, f"{column}__among": keys}))
    return {key: found.get(key) for key in keys}


def clock_row(cluster: int) -> rows.ClockRow:
    """Where the ledger stands now."""
    return rows.ClockRow(*Clock.objects.values_list("revision", "tag", "incarnation", "compared").get(cluster=cluster))


def _nodes(query: Any) -> dict[str, rows.NodeRow]:
    nodes = list(
        query.values_list(
            *("pk", "name", "retired", "agent", "accounting_unknown"),
            *(_text(name) for name in ("pair_scores", "labelled", "gone_vendors")),
        ).order_by()
    )
    by_node: dict[int, list[devices.Device]] = defaultdict(list)
    gone = {pk: found for pk, *_, vendors in nodes if (found := _words.of(vendors))}
    for pk, device in _devices([pk for pk, *_ in nodes]):
        if device.vendor not in gone.get(pk, ()):
            by_node[pk].append(device)
    return {
        name: rows.NodeRow(
            name,
            tuple(sorted(by_node[pk], key=lambda one: (one.vendor, one.index, one.uuid))),
            retired,
            agent,
            unknown,
            _pair_scores.of(pairs),
            _words.of(labelled),
        )
        for pk, name, retired, agent, unknown, pairs, labelled, _ in nodes
    }


def _devices(nodes: list[int]) -> Iterable[tuple[int, devices.Device]]:
    """(node, device) of each registered device without conflict."""
    found = Device.objects.filter(node__pk__among=nodes, registered=True, conflict=False).order_by()
    plain = ("uuid", "index", "vendor", "model", "memory_mib", "core_percent", "slots", "numa", "mode", "healthy")
    rows_ = found.values_list("node_id", *plain, *map(_text, ("mig_profiles", "custom")), *_DEVICE_FLAGS)
    same = sys.intern
    for node, uuid, index, vendor, model, *amounts, mode, healthy, mig, custom, cordoned, on_node, reserved in rows_:
        memory_mib, cores, slots, numa = amounts
        yield (
            node,
            devices.Device(
                *(same(uuid), index, same(vendor), same(model), memory_mib, cores, slots, numa, same(mode), healthy),
                _profiles.of(mig), cordoned or on_node, reserved, _customs.of(custom),
            ),
        )  # fmt: skip


_DEVICE_FLAGS = ("cordoned", "cordoned_on_node", "reserved_mib")


def mig_profile(stored: Mapping[str, Any]) -> devices.MigProfile:
    """A profile as Device.mig_profiles stores it: name, memory_mib, core_percent, slice_count, placements [[start,
    size], …]."""
    return devices.MigProfile(
        stored["name"],
        stored["memory_mib"],
        stored["core_percent"],
        stored["slice_count"],
        tuple(devices.MigPlacement(start, size) for start, size in stored["placements"]),
    )


def mig_profile_json(profile: devices.MigProfile) -> dict[str, Any]:
    """The stored form that `mig_profile` reads."""
    return {
        "name": profile.name,
        "memory_mib": profile.memory_mib,
        "core_percent": profile.core_percent,
        "slice_count": profile.slice_count,
        "placements": [[one.start, one.size] for one in profile.placements],
    }


def _holds(query: Any) -> dict[int, rows.HoldRow]:
    columns = (
        "pk",
        "device__node__name",
        "device__vendor",
        "device__uuid",
        "slots",
        "memory_mib",
        "core_percent",
        "in_force",
    )
    return {
        pk: rows.HoldRow(node, (vendor, uuid), devices.Held(slots, memory, cores), in_force)
        for pk, node, vendor, uuid, slots, memory, cores, in_force in query.values_list(*columns).order_by()
    }


class _Same(Generic[T]):
    """One value for equal stored JSON: thousands of pods ask alike and stand alike, and a View keeps them all."""

    MOST = 10_000

    def __init__(self, decode: Callable[[Any], T]) -> None:
        self._decode = decode
        self._known: dict[str, T] = {}

    def of(self, stored: str) -> T:
        """What the stored text means. To be read only, like all that a View holds."""
        try:
            return self._known[stored]
        except KeyError:
            value = self._decode(json.loads(stored))
        if len(self._known) >= self.MOST:
            self._known = {}
        self._known[stored] = value
        return value


def _text(column: str) -> ExpressionWrapper[Any]:
    """A JSON column as it is stored: most are alike, so that decoding each of them would be most of the work."""
    return ExpressionWrapper(F(column), output_field=TextField())


_requests = _Same(pod_request.decode)
_facts = _Same(pod_facts.decode)
_charges = _Same(lambda stored: tuple(map(claim_charge, stored)))
_words: _Same[frozenset[str]] = _Same(frozenset)
_pair_scores = _Same(lambda stored: {(a, b): score for a, b, score in stored})
_profiles = _Same(lambda stored: tuple(map(mig_profile, stored)))
_customs = _Same(lambda stored: tuple(sorted(stored.items())))


POD_COLUMNS = (
    "pk",
    "uid",
    "claim_id",
    "namespace",
    "name",
    "state",
    _text("request"),
    "node",
    "aligned",
    _text("facts"),
    _text("claim_charges"),
    "priority",
    "created_at",
    "gated",
    "unmanaged",
    "suspended",
    "resource_version",
    "owner",
    "expired_node",
    "bind_attempt",
    "lease_until",
    "state_at",
)


def pod_rows_of(ids: Iterable[int]) -> dict[int, rows.PodRow]:
    """The rows of these pods as they are now, also uncommitted by this thread; ended ones too."""
    return _pods(Pod.objects.filter(pk__among=list(ids)))


def _pods(query: Any) -> dict[int, rows.PodRow]:
    found = list(query.values_list(*POD_COLUMNS).order_by())
    shares = _shares(query) if found else {}
    return {values[0]: _pod(values, shares.get(values[0], ())) for values in found}


def _changed_pods_and_locks(
    cluster: int, pods: set[int], locks: set[str]
) -> tuple[dict[int, rows.PodRow | None], dict[str, rows.LockRow | None]]:
    """Both at once where they are few: each bind takes a lock, and each start frees it."""
    few_pods = [_FEW_PODS.asked(*sorted(pods))] if 0 < len(pods) <= FEW else []
    few_locks = [_FEW_LOCKS.asked(cluster, *sorted(locks))] if 0 < len(locks) <= FEW else []
    found = statements.ask([*few_pods, *few_locks]) if few_pods or few_locks else []
    many = _with_shares(Pod.objects.filter(pk__among=list(pods))) if len(pods) > FEW else ()
    changed_pods = _joined(found.pop(0) if few_pods else many, pods)
    if not few_locks:
        return changed_pods, _named(_locks, NodeLock, cluster, locks, "node")
    there = {values[0]: rows.LockRow(*values) for values in found.pop()}
    return changed_pods, {node: there.get(node) for node in locks}


def _joined(joined: Iterable[tuple[Any, ...]], keys: set[int]) -> dict[int, rows.PodRow | None]:
    """Pods and their shares from one statement, each pod's columns once for every share."""
    found: dict[int, tuple[Any, ...]] = {}
    given: dict[int, list[devices.Share]] = defaultdict(list)
    for values in joined:
        pod, share = values[: len(POD_COLUMNS)], values[len(POD_COLUMNS) :]
        found[pod[0]] = pod
        if share[0] is not None:
            given[pod[0]].append(_share(*share[1:]))
    return {pk: _pod(found[pk], given[pk]) if pk in found else None for pk in keys}


def _with_shares(pods: Any) -> Any:
    shares = [f"shares__{column}" for column in SHARE_COLUMNS]
    live = pods.exclude(state=PodState.ENDED)
    return live.order_by("shares__container_index", "shares__pk").values_list(*POD_COLUMNS, *shares)


FEW = 12
"""Pods or locks that change between two looks at the ledger: nearly always so few."""
_FEW_PODS = statements.Query(lambda *keys: _with_shares(Pod.objects.filter(pk__in=keys)))


def _pod(values: tuple[Any, ...], shares: Iterable[devices.Share]) -> rows.PodRow:
    (
        pk,
        uid,
        claim_id,
        namespace,
        name,
        state,
        request,
        node,
        aligned,
        facts,
        charges,
        priority,
        created_at,
        gated,
        unmanaged,
        suspended,
        resource_version,
        owner,
        expired_node,
        attempt,
        lease,
        state_at,
    ) = values
    return rows.PodRow(
        id=pk,
        uid=uid,
        claim_id=claim_id,
        namespace=sys.intern(namespace),
        name=name,
        state=sys.intern(state),
        request=_requests.of(request),
        node=sys.intern(node),
        shares=tuple(shares),
        aligned=aligned,
        facts=_facts.of(facts),
        claim_charges=_charges.of(charges),
        priority=priority,
        created_at_s=created_at.timestamp() if created_at else 0.0,
        gated=gated,
        unmanaged=unmanaged,
        suspended=suspended,
        resource_version=resource_version,
        owner=owner,
        expired_node=expired_node,
        bind_attempt=attempt,
        lease_until_s=lease.timestamp() if lease else None,
        state_at_s=state_at.timestamp() if state_at else None,
    )


def claim_charge(stored: list[Any]) -> quota.Charge:
    """A lower bound as Pod.claim_charges stores it."""
    vendor, slots, memory, cores, largest = stored
    return quota.Charge(vendor, "", quota.Amounts(slots, memory, cores), largest)


def claim_charge_json(charge: quota.Charge) -> list[Any]:
    """The stored form that `claim_charge` reads."""
    amounts = charge.amounts
    return [charge.vendor, amounts.devices, amounts.memory_mib, amounts.core_percent, charge.largest_share_mib]


SHARE_COLUMNS = (
    "pod_id",
    "container_index",
    "container",
    "kind",
    "vendor",
    "uuid",
    "memory_mib",
    "core_percent",
    "model",
    "mig_profile",
    "mig_start",
    "mig_size",
)


def _shares(pods: Any) -> dict[int, list[devices.Share]]:
    found: dict[int, list[devices.Share]] = defaultdict(list)
    query = Share.objects.filter(pod__in=pods.order_by().values("pk")).order_by("container_index", "pk")
    for pod, *values in query.values_list(*SHARE_COLUMNS):
        found[pod].append(_share(*values))
    return found


def _share(
    index: int, container: str, kind: str, vendor: str, uuid: str, memory_mib: int, core_percent: int, model: str,
    profile: str, start: int, size: int,
) -> devices.Share:  # fmt: skip
    mig = devices.MigUse(profile, devices.MigPlacement(start, size)) if profile else None
    container, vendor, uuid, model = map(sys.intern, (container, vendor, uuid, model))
    return devices.Share(
        index, container, devices.ContainerKind(kind), vendor, uuid, memory_mib, core_percent, mig, model
    )


LOCK_COLUMNS = ("node", "pod_uid", "stale", "mode")
_FEW_LOCKS = statements.Query(
    lambda cluster, *nodes: (
        NodeLock.objects.filter(cluster=cluster, node__in=nodes).order_by().values_list(*LOCK_COLUMNS)
    )
)


def _locks(query: Any) -> dict[str, rows.LockRow]:
    return {values[0]: rows.LockRow(*values) for values in query.values_list(*LOCK_COLUMNS).order_by()}
