"""Views made from node states, and the decision that is taken on them: what tests of explanations ask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hami_platform.domain import lifecycle, place, quota
from hami_platform.domain.devices import ContainerKind, Share
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.quota import Limits, Rule, Selector
from hami_platform.domain.requests import ContainerRequest, DeviceRequest, PodRequest
from hami_platform.domain.rows import Changes, ClockRow, LockRow, NamespaceRow, NodeRow, PodRow, QuotaRow, TenantRow
from hami_platform.domain.view import View
from hami_platform.domain.what_if import Answer, Ask

NAMESPACE = "nlp"
TENANT = TenantRow(1, "labs")
USER = 1_000_000


def view_of(*states: NodeState, limits: Limits | None = None, used_mib: int = 0) -> View:
    """A View of these nodes: what is held on a device is one pod's of the namespace `other`, row for row.

    limits: of the namespace, in which one pod off these nodes holds used_mib.
    """
    nodes = {
        one.name: NodeRow(one.name, tuple(s.device for s in one.devices), pair_scores=one.pair_scores) for one in states
    }
    pods = dict(enumerate(_holders(states), start=1))
    if used_mib:
        share = Share(0, "main", ContainerKind.APP, "NVIDIA", "GPU-elsewhere", used_mib, 0, None, "NVIDIA A10")
        pods[USER] = _pod(USER, NAMESPACE, "user", "elsewhere", (share,))
    quotas = {1: QuotaRow(1, Rule("nlp/default", Selector(), limits), namespace=NAMESPACE)} if limits else {}
    locks = {one.name: LockRow(one.name, "x", stale=True) for one in states if one.blocked}
    namespaces = {name: NamespaceRow(name) for name in (NAMESPACE, "other")}
    clock = ClockRow(7, "t", "i", "i")
    return View().fold(
        Changes(clock, nodes=nodes, pods=pods, quotas=quotas, namespaces=namespaces, locks=locks)  # type: ignore[arg-type]
    )


def decide(view: View, ask: Ask, names: Sequence[str] | None) -> Answer:
    """As the services decide: the claim first, at the least that the pod can take, then the devices."""
    charges = lifecycle.lower_bound(ask.request, view.kinds)
    headroom = view.headroom(ask.namespace, without=ask.pod)
    excess = quota.excess(headroom, charges)
    decision = place.place(
        view.states, tuple(view.states) if names is None else names, ask.request,
        headroom=headroom if headroom.enforced else quota.UNLIMITED,
    )  # fmt: skip
    return Answer("enforce", excess, excess is not None and headroom.enforced, decision)


def _holders(states: Iterable[NodeState]) -> Iterable[PodRow]:
    """One running pod for every share that is held, MIG places kept."""
    number = 0
    for node in states:
        for state in node.devices:
            held = state.held
            if not held:
                continue
            number += 1
            uses = held.mig or (None,) * max(1, held.slots)
            parts = len(uses)
            shares = tuple(
                Share(
                    index, f"c{index}", ContainerKind.APP, state.device.vendor, state.device.uuid,
                    _part(held.memory_mib, index, parts), _part(held.core_percent, index, parts), use,
                    state.device.model,
                )
                for index, use in enumerate(uses)
            )  # fmt: skip
            yield replace(_pod(number, "other", f"holder-{number}", node.name, shares), owner="Job/holder")


def _part(total: int, index: int, parts: int) -> int:
    return total - total // parts * (parts - 1) if index == 0 else total // parts


def _pod(number: int, namespace: str, name: str, node: str, shares: tuple[Share, ...]) -> PodRow:
    containers = tuple(
        ContainerRequest(
            f"c{share.container_index}",
            ContainerKind.APP,
            (DeviceRequest(share.vendor, 1, share.memory_mib, None, share.core_percent),),
        )
        for share in shares
    )
    return PodRow(
        number, f"uid-{number}", "", namespace, name, "reserved", PodRequest(containers), node=node, shares=shares
    )


def waiting(number: int, request: PodRequest, *, namespace: str = NAMESPACE, priority: int = 0) -> PodRow:
    """A pod that waits."""
    return PodRow(
        number, f"uid-{number}", "", namespace, f"w{number}", "waiting", request,
        priority=priority, created_at_s=float(number),
    )  # fmt: skip


def queue(view: View, *rows: PodRow) -> View:
    """The View with these pods in it."""
    return view.fold(Changes(pods={row.id: row for row in rows}))


def reserved(view: View, row: PodRow, placement: place.Placement) -> View:
    """The View after the pod was given its place, as the ledger would have it."""
    taken = PodRow(
        row.id, row.uid, "", row.namespace, row.name, "reserved", row.request,
        node=placement.node, shares=placement.shares,
    )  # fmt: skip
    return view.fold(Changes(pods={row.id: taken}))
