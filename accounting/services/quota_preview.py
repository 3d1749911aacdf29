"""What a change of a quota would do, said before it is saved. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from accounting.models import Quota
from accounting.selectors import access, quota_bars
from accounting.services import claims
from hami_platform.domain.quota import Limits, Rule, Selector
from hami_platform.domain.rows import Changes, PodRow, QuotaRow
from hami_platform.domain.view import View

NEW = -1
"""Id of a quota that does not exist yet, in the View of the preview only."""


@dataclass(frozen=True, slots=True)
class Effect:
    """bars: each limit as it would stand. starts, stops: pods without a device that the limits would let in, or no
    longer. holding: pods in scope that hold devices, which stay whatever the limit."""

    bars: tuple[quota_bars.QuotaBar, ...]
    starts: tuple[PodRow, ...]
    stops: tuple[PodRow, ...]
    holding: int

    @property
    def over(self) -> tuple[quota_bars.QuotaBar, ...]:
        """The limits that would be exceeded by what is held now."""
        return tuple(bar for bar in self.bars if bar.over)


def quota_row(row: Quota, limits: Limits, selector: Selector) -> QuotaRow:
    """The quota as the View would hold it, in force."""
    scope = row.namespace or row.tenant
    rule = Rule(f"{scope.name if scope else '?'}/{row.name}", selector, limits)
    namespace = row.namespace.name if row.namespace else None
    return QuotaRow(row.pk or NEW, rule, namespace, row.tenant.pk if row.tenant else None)


def effect(view: View, changed: QuotaRow) -> Effect:
    """The View with the quota changed, beside the View as it is."""
    after = view.fold(Changes(quotas={changed.id: changed}))
    scope = _scope(after, changed)
    pods = [pod for pod in view.pods.values() if pod.namespace in scope]
    waiting = [pod for pod in pods if pod.state == "waiting"]
    claimed = [pod for pod in pods if pod.state == "claimed"]
    bars = [bar for bar in quota_bars.all_bars(after, access.ALL) if bar.quota_id == changed.id]
    return Effect(
        tuple(bars),
        tuple(pod for pod in waiting if _stopped(view, pod) and not _stopped(after, pod)),
        tuple(pod for pod in (*waiting, *claimed) if _stopped(after, pod) and not _stopped(view, pod)),
        sum(1 for pod in pods if pod.held),
    )


def _scope(view: View, row: QuotaRow) -> Iterable[str]:
    if row.namespace is not None:
        return {row.namespace}
    return quota_bars.members_by_tenant(view).get(row.tenant or NEW, set())


def _stopped(view: View, pod: PodRow) -> bool:
    """Whether the namespace's limits keep the pod from its claim."""
    charges = pod.charges or claims.price(view, pod.request)
    return claims.judge(view, pod.namespace, charges, without=pod.id).stops
