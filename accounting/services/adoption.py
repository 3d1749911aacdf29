"""Gives a pod that was seen its row: the claim it came with, or a claim by uid under the same check, or a place to
wait."""

from __future__ import annotations

from django.db import connection
from django.db.models import Q

from accounting import ledger, loading, statements
from accounting.ledger import Entry
from accounting.models import Pod, PodState
from accounting.services import claims, pod_rows
from accounting.services.seen import PodSeen
from hami_platform.domain.view import View
from hami_platform.domain.wire import pod_request


def pod_adopt(entry: Entry, view: View, seen: PodSeen, pod: Pod | None) -> Pod:
    """The row of an unbound live pod. pod: `pod_known`, read under the Clock. Call there, with the View folded."""
    if pod is None:
        return _claimed_by_uid(entry, view, seen)
    if not pod.uid:
        _match(entry, pod, seen)
    _asks_now(entry, pod, seen)
    if pod.state == PodState.WAITING and not pod.suspended:
        claim_again(entry, view, pod, seen)
    return pod


def _asks_now(entry: Entry, pod: Pod, seen: PodSeen) -> None:
    """What the object asks for counts, not what admission saw of it: later webhooks add containers, which moves the
    others, and people change annotations. The claim keeps its price; `/filter` checks the real charge."""
    asked = pod_request.encode(seen.request)
    older = bool(seen.resource_version) and seen.resource_version < pod.resource_version
    if pod.state in pod_rows.UNBOUND and not seen.problem and not older and pod.request != asked:
        version = max(seen.resource_version, pod.resource_version)
        pod_rows.pod_move(entry, pod, pod.state, request=asked, resource_version=version)


_BY_UID_OR_CLAIM = statements.Query(
    lambda cluster, uid, claim, namespace: (
        Pod.objects.filter(
            Q(uid=uid) | Q(claim_id=claim, namespace=namespace, uid="", state=PodState.CLAIMED), cluster=cluster
        )
        .order_by()
        .values_list(*pod_rows.COLUMNS)
    )
)


def asked(seen: PodSeen) -> statements.Asked:
    """The question that `pod_known` asks."""
    if not seen.claim_id:
        return pod_rows.asked(seen.uid)
    return _BY_UID_OR_CLAIM.asked(ledger.cluster_id(), seen.uid, seen.claim_id, seen.namespace)


def pod_known(entry: Entry, seen: PodSeen) -> Pod | None:
    """The pod's row, ended or not, else the unmatched claim that it carries. One claim serves one uid, in its
    namespace."""
    rows = entry.answer(asked(seen))
    columns = pod_rows.COLUMNS
    found = sorted((Pod.from_db(connection.alias, columns, row) for row in rows), key=lambda one: not one.uid)
    return found[0] if found else None


def _match(entry: Entry, pod: Pod, seen: PodSeen) -> None:
    pod_rows.pod_move(
        entry,
        pod,
        PodState.CLAIMED,
        uid=seen.uid,
        name=seen.name,
        owner=seen.owner,
        lease_until=None,
        priority=seen.priority,
        created_at=seen.created_at,
        gated=seen.gated,
        resource_version=seen.resource_version,
    )


def _claimed_by_uid(entry: Entry, view: View, seen: PodSeen) -> Pod:
    charges = claims.price(view, seen.request)
    stopped = claims.judge(view, seen.namespace, charges).stops
    entry.charged |= not stopped
    return pod_rows.pod_create(
        entry,
        cluster=ledger.cluster_id(),
        state=PodState.WAITING if stopped else PodState.CLAIMED,
        request=seen.request,
        charges=charges,
        namespace=seen.namespace,
        known=view.namespaces,
        name=seen.name,
        owner=seen.owner,
        uid=seen.uid,
        priority=seen.priority,
        created_at=seen.created_at or entry.at,
        gated=seen.gated,
        resource_version=seen.resource_version,
    )


def claim_again(entry: Entry, view: View, pod: Pod, seen: PodSeen | None = None) -> bool:
    """Claim for a waiting pod if its limits allow it now."""
    request = seen.request if seen is not None else view.pods[pod.pk].request
    charges = claims.price(view, request)
    if claims.judge(view, pod.namespace, charges, without=pod.pk).stops:
        return False
    entry.charged = True
    pod_rows.pod_move(
        entry, pod, PodState.CLAIMED, suspended=False, claim_charges=[loading.claim_charge_json(one) for one in charges]
    )
    return True
