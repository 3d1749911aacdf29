"""Claims: quota held for a pod from admission on, before any device is chosen.

A claim is priced at the least the pod can take; `/filter` checks the real charge. Two requests can never both take
the last room, since each is checked under the Clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from django.db import connection
from django.db.models import Q

from accounting import ledger, live_view, statements
from accounting.ledger import Entry
from accounting.models import Pod, PodState
from accounting.services import pod_rows
from hami_platform import env
from hami_platform.domain import lifecycle, quota
from hami_platform.domain.devices import Device
from hami_platform.domain.quota import Charge, Excess
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.rows import NamespaceRow
from hami_platform.domain.view import View


@dataclass(frozen=True, slots=True)
class ClaimAsk:
    """What admission knows of a pod: no uid yet, and with generateName no name.

    claim_id: uid of the AdmissionReview request. presented: a claim id that the pod already carries.
    """

    claim_id: str
    namespace: str
    request: PodRequest
    name: str = ""
    owner: str = ""
    presented: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Basis:
    """What a claim is judged on: with the same again, the answer is the same. pending: of the message alone, the claims
    that wait for their pods."""

    mode: str
    headroom: quota.Headroom
    kinds: Mapping[str, tuple[Device, ...]]
    request: PodRequest
    pending: int = 0


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """granted: admit. gated: admit with the quota gate. message: why not, for people. claim_id: the one that holds,
    if any. basis, revision: what it was judged on; None for a repeat of an earlier answer."""

    granted: bool
    gated: bool = False
    claim_id: str = ""
    message: str = ""
    warnings: tuple[str, ...] = ()
    excess: Excess | None = None
    basis: Basis | None = None
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the namespace's mode takes a price: the first broken limit, and whether it stops the pod. headroom: the
    limits that it was held to."""

    mode: str
    excess: Excess | None = None
    warnings: tuple[str, ...] = field(default=())
    headroom: quota.Headroom = quota.UNLIMITED

    @property
    def stops(self) -> bool:
        return self.excess is not None and self.mode in ("enforce", "wait")


def price(view: View, request: PodRequest) -> tuple[Charge, ...]:
    """The least that a request can take of each vendor, over the kinds of devices registered now."""
    return lifecycle.lower_bound(request, view.kinds)


def judge(view: View, namespace: str, charges: Sequence[Charge], *, without: int | None = None) -> Verdict:
    """What the namespace's limits say to these charges, `without` (a pod id) not counted."""
    default = NamespaceRow(namespace, mode=env.current().default_namespace_mode)
    mode = view.namespaces.get(namespace, default).mode
    return weighed(mode, view.headroom(namespace, without=without), charges)


def weighed(mode: str, headroom: quota.Headroom, charges: Sequence[Charge]) -> Verdict:
    """What these limits say to these charges in a namespace of this mode. Follows from nothing else."""
    excess = quota.excess(headroom, charges)
    if excess is None or mode != "warn":
        return Verdict(mode, excess, headroom=headroom)
    over = excess.used + excess.asked - excess.limit
    return Verdict(mode, excess, (f"over quota {excess.rule} by {over} ({excess.text()})",), headroom)


def claim_take(ask: ClaimAsk, *, dry_run: bool = False) -> ClaimAnswer:
    """Claim quota for a pod being admitted, gate it, or say why not. A repeat of the same request gets the stored
    answer.

    dry_run answers the same and writes nothing. Raises ledger.LedgerUnavailable.
    """
    if dry_run:
        view = live_view.live().refresh()
        return _answer(view, ask, judge(view, ask.namespace, price(view, ask.request)))
    with live_view.deciding(cause="claim_take", first=[_asked(ask)]) as (entry, view):
        stored, old = _before(entry, ask)
        if stored is not None:
            return ClaimAnswer(granted=True, claim_id=stored.claim_id)
        charges = price(view, ask.request)
        answer = _answer(view, ask, judge(view, ask.namespace, charges, without=old.pk if old else None))
        if answer.granted and not answer.gated:
            _write(entry, view, ask, charges, old)
        return answer


_UNMATCHED = Q(uid="", state=PodState.CLAIMED)
_BY_CLAIM = statements.Query(
    lambda cluster, claim, presented, namespace: (
        Pod.objects.filter(Q(claim_id=claim) | _UNMATCHED & Q(claim_id=presented, namespace=namespace), cluster=cluster)
        .order_by()
        .values_list(*pod_rows.COLUMNS)
    )
)
_BY_CLAIM_OR_NAME = statements.Query(
    lambda cluster, claim, name, namespace: (
        Pod.objects.filter(Q(claim_id=claim) | _UNMATCHED & Q(name=name, namespace=namespace), cluster=cluster)
        .order_by()
        .values_list(*pod_rows.COLUMNS)
    )
)


def _asked(ask: ClaimAsk) -> statements.Asked:
    presented, named = ask.presented or ask.claim_id, ask.name and not ask.presented
    query = _BY_CLAIM_OR_NAME if named else _BY_CLAIM
    return query.asked(ledger.cluster_id(), ask.claim_id, ask.name if named else presented, ask.namespace)


def _before(entry: Entry, ask: ClaimAsk) -> tuple[Pod | None, Pod | None]:
    """(what this request was granted before, the unmatched claim that it takes over): that is the one which the pod
    presents, or the last try under the same name."""
    found = entry.answer(_asked(ask))
    pods = sorted((Pod.from_db(connection.alias, pod_rows.COLUMNS, row) for row in found), key=lambda pod: pod.pk)
    stored = next((pod for pod in pods if pod.claim_id == ask.claim_id and pod.state != PodState.ENDED), None)
    others = (pod for pod in pods if pod.claim_id != ask.claim_id and pod.lease_until and pod.lease_until > entry.at)
    return stored, next(others, None)


def _answer(view: View, ask: ClaimAsk, verdict: Verdict) -> ClaimAnswer:
    pending = 0
    if verdict.stops and verdict.mode != "wait":
        pending = sum(
            1 for pod in view.pods.values() if pod.namespace == ask.namespace and pod.state == "claimed" and not pod.uid
        )
    basis = Basis(verdict.mode, verdict.headroom, view.kinds, ask.request, pending)
    claim = "" if verdict.stops else ask.claim_id
    return replace(answered(verdict, pending), claim_id=claim, basis=basis, revision=view.clock.revision)


def answered(verdict: Verdict, pending: int) -> ClaimAnswer:
    """The answer to a verdict, without a claim. pending: claims of the namespace whose pods do not exist yet."""
    if verdict.excess is None or not verdict.stops:
        return ClaimAnswer(granted=True, warnings=verdict.warnings, excess=verdict.excess)
    message = verdict.excess.text()
    if verdict.mode == "wait":
        return ClaimAnswer(granted=True, gated=True, warnings=(f"waits for quota: {message}",), excess=verdict.excess)
    note = f"; {pending} claims pending creation" if pending else ""
    return ClaimAnswer(granted=False, message=f"exceeding resource quota: {message}{note}", excess=verdict.excess)


def told(answer: ClaimAnswer) -> str:
    """The answer in one line: what its asker was told, if anything."""
    return answer.message or "; ".join(answer.warnings)


def _write(entry: Entry, view: View, ask: ClaimAsk, charges: Sequence[Charge], old: Pod | None) -> None:
    if old is not None:
        pod_rows.pod_end(entry, old)
    pod_rows.pod_create(
        entry,
        cluster=ledger.cluster_id(),
        state=PodState.CLAIMED,
        request=ask.request,
        charges=charges,
        namespace=ask.namespace,
        known=view.namespaces,
        name=ask.name,
        owner=ask.owner,
        claim_id=ask.claim_id,
        priority=ask.priority,
        created_at=entry.at,
        lease_until=entry.at + timedelta(seconds=env.current().claim_lease_s),
    )


def with_limits_counted(view: View, namespace: str, *, without: int | None) -> quota.Headroom:
    """The headroom that `/filter` holds a placement to: none in the modes that never refuse."""
    headroom = view.headroom(namespace, without=without)
    return headroom if headroom.enforced else replace(headroom, rules=())
