"""Who is over a limit, and who waits although under it. Reads the View; nothing is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from accounting.selectors import quota_bars
from accounting.selectors.access import Reach
from accounting.services import claims
from hami_platform.domain.quota import Amounts
from hami_platform.domain.rows import PodRow
from hami_platform.domain.view import View


@dataclass(frozen=True, slots=True)
class Starved:
    """A namespace or tenant whose pods wait for devices although its limits would let them have what they ask.

    asked: what they ask in all. fill: the fullest of its limits, none where it has no limit. since: the longest wait.
    """

    scope: str
    kind: str
    pods: int
    asked: Amounts
    since: datetime | None
    fill: quota_bars.QuotaBar | None = None


def over(view: View, reach: Reach) -> list[quota_bars.QuotaBar]:
    """Limits that are exceeded, those by the largest part first."""
    found = [bar for bar in quota_bars.all_bars(view, reach) if bar.over]
    return sorted(found, key=lambda bar: (-bar.percent, bar.rule, bar.resource))


def starved(view: View, reach: Reach) -> list[Starved]:
    """Namespaces and tenants whose pods wait under their limits, the longest wait first. A tenant is named for what its
    namespaces' pods wait for, to whom sees the tenant."""
    waiting: dict[str, list[PodRow]] = defaultdict(list)
    for pod in view.pods.values():
        if pod.state in {"waiting", "claimed"} and pod.uid and reach.sees(pod.namespace) and _under(view, pod):
            waiting[pod.namespace].append(pod)
    bars = quota_bars.all_bars(view, reach)
    found = [_starved(view, "namespace", name, pods, bars) for name, pods in waiting.items()]
    for tenant, names in quota_bars.members_by_tenant(view).items():
        pods = [pod for name in names for pod in waiting.get(name, ())]
        if pods and reach.sees_tenant(tenant):
            found.append(_starved(view, "tenant", view.tenants[tenant].name, pods, bars))
    return sorted(found, key=lambda one: (one.since is None, one.since, one.kind != "tenant", one.scope))


def _under(view: View, pod: PodRow) -> bool:
    """Whether what the pod asks lies within all limits on it."""
    charges = pod.charges or claims.price(view, pod.request)
    return claims.judge(view, pod.namespace, charges, without=pod.id).excess is None


def _starved(view: View, kind: str, scope: str, pods: Sequence[PodRow], bars: Iterable[quota_bars.QuotaBar]) -> Starved:
    asked = Amounts()
    for pod in pods:
        for charge in pod.charges or claims.price(view, pod.request):
            asked += charge.amounts
    own = [bar for bar in bars if bar.scope_kind == kind and bar.scope == scope]
    since = min((pod.created_at_s for pod in pods if pod.created_at_s), default=None)
    moment = datetime.fromtimestamp(since, UTC) if since is not None else None
    return Starved(scope, kind, len(pods), asked, moment, max(own, key=lambda bar: bar.percent, default=None))
