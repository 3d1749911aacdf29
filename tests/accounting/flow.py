"""The path of a pod through the services, in the words of the tests: admit, filter, bind, show, gone, used."""

from __future__ import annotations

import itertools
from typing import Any

from accounting import ledger, live_view
from accounting.models import Refusal
from accounting.services import bindings, claims, namespaces, nodes, observe, placements, quotas, reconcile, seen
from accounting.services.node_seen import from_object as node_from
from accounting.services.placements import FilterAnswer
from hami_platform.domain import quota
from tests.accounting import kube_objects

CONFIG = kube_objects.CONFIG
_requests = itertools.count()


def cluster(*nodes_: dict[str, Any]) -> None:
    """A cluster with these nodes (default: n1 with one 24 GiB card), compared and ready."""
    observe_nodes(*(nodes_ or (kube_objects.node(),)))
    reconcile.compared()


def observe_nodes(*objects: dict[str, Any]) -> None:
    """The API server shows these nodes."""
    nodes.nodes_observe([node_from(one, CONFIG) for one in objects], config=CONFIG)


def limit(namespace: str = "nlp", *, mode: str | None = None, **limits: int | None) -> None:
    """The namespace's default quota is this."""
    namespaces.namespace_save(name=namespace, mode=mode or "enforce", reason="test", actor="test")
    quotas.quota_set(namespace=namespace, reason="test", actor="test", limits=quota.Limits(**limits))


def admit(pod: dict[str, Any], *, dry_run: bool = False) -> claims.ClaimAnswer:
    """Admission of a pod; a granted claim is written into it as the patch would."""
    one = seen.from_object(pod, CONFIG)
    ask = claims.ClaimAsk(f"review-{next(_requests)}", one.namespace, one.request, name=one.name, owner=one.owner)
    answer = claims.claim_take(ask, dry_run=dry_run)
    if answer.claim_id and not dry_run:
        pod["metadata"]["annotations"]["platform.hami.io/claim"] = answer.claim_id
    return answer


def filter_(pod: dict[str, Any], *candidates: str) -> FilterAnswer:
    """`/filter` with these nodes (default: all)."""
    names = candidates or tuple(live_view.live().refresh().states)
    return placements.placement_reserve(seen=seen.from_object(pod, CONFIG), candidates=names, config=CONFIG)


def refusal(pod: dict[str, Any], *candidates: str) -> FilterAnswer:
    """`/filter` that refuses, with the record that the extender's writer makes of it."""
    answer = filter_(pod, *candidates)
    assert answer.node == ""
    now = ledger.database_time()
    Refusal.objects.create(
        cluster_id=ledger.cluster_id(),
        pod_uid=pod["metadata"]["uid"],
        at=now,
        since=now,
        revision=answer.revision,
        candidates=list(candidates) or None,
    )
    return answer


def bind(pod: dict[str, Any], node: str = "n1") -> bindings.BindingPlan | bindings.BindRefused:
    """`/bind` up to the POST."""
    meta = pod["metadata"]
    return bindings.binding_begin(
        uid=meta["uid"], namespace=meta["namespace"], name=meta["name"], node=node, mode="row", config=CONFIG
    )


def show(*pods: dict[str, Any]) -> int:
    """The API server shows these pods."""
    return observe.pods_observe([seen.from_object(pod, CONFIG) for pod in pods], config=CONFIG)


def run(pod: dict[str, Any], node: str = "n1") -> None:
    """Admit, place, bind and start the pod."""
    assert admit(pod).granted
    run_placed(pod, node)


def run_placed(pod: dict[str, Any], node: str = "n1") -> None:
    """Place, bind and start a pod that was admitted."""
    assert filter_(pod, node).node == node
    plan = bind(pod, node)
    assert isinstance(plan, bindings.BindingPlan), plan
    bindings.binding_bound(uid=plan.uid, node=node)
    pod["metadata"]["annotations"] |= plan.annotations
    pod["spec"]["nodeName"] = node
    pod["status"] = pod["status"] | {
        "phase": "Running",
        "containerStatuses": [{"name": one["name"], **kube_objects.running()} for one in pod["spec"]["containers"]],
    }
    if not pod["spec"]["initContainers"]:
        show(pod)


def used_mib(uuid: str = "GPU-n1") -> int:
    """MiB held on a device."""
    view = live_view.live().refresh()
    return next(
        one.held.memory_mib for state in view.states.values() for one in state.devices if one.device.uuid == uuid
    )


def charged_mib(namespace: str = "nlp") -> int:
    """MiB charged to the namespace, claims included."""
    usage = live_view.live().refresh().usage.get(namespace, {})
    return sum(amounts.memory_mib for amounts in usage.values())


def state(pod: dict[str, Any]) -> str | None:
    """The pod's state in the ledger; None when it has ended or was never seen."""
    row = live_view.live().refresh().pod(pod["metadata"]["uid"])
    return None if row is None else row.state


def view_is_true() -> None:
    """The folded View equals a fresh load, part by part."""
    folded = live_view.live().refresh()
    fresh = live_view.LiveView(ledger.cluster_id()).reload()
    for part in folded.__dataclass_fields__:
        assert getattr(folded, part) == getattr(fresh, part), part
