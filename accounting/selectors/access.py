"""Who may see and change what. Pages, admin and REST all ask here, so that they cannot disagree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest

from accounting import live_view
from accounting.models import ApiToken, Role, User
from hami_platform.domain.view import View

MANAGERS = frozenset({Role.Name.OPERATOR, Role.Name.TENANT_ADMIN})


@dataclass(frozen=True, slots=True)
class Reach:
    """What one person may see and change.

    everything: all namespaces and tenants. operates: may change whatever people can change. audits: may read who came
    in and who was refused. namespaces, tenants: the visible names and ids otherwise. manages: namespaces whose quotas
    the person may set.
    """

    everything: bool = False
    operates: bool = False
    audits: bool = False
    namespaces: frozenset[str] = frozenset()
    tenants: frozenset[int] = frozenset()
    manages: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return self.everything or bool(self.namespaces or self.tenants)

    def sees(self, namespace: str) -> bool:
        """Whether what happens in this namespace may be shown."""
        return self.everything or namespace in self.namespaces

    def sees_tenant(self, tenant_id: int) -> bool:
        """Whether this tenant may be shown."""
        return self.everything or tenant_id in self.tenants

    def sets_quota(self, namespace: str | None) -> bool:
        """Whether the person may set limits of this namespace; None: of a tenant, which operators alone may."""
        return self.operates or (namespace is not None and namespace in self.manages)

    def within(self, names: Iterable[str]) -> Reach:
        """Only these namespaces, of those that are in reach."""
        seen = frozenset(name for name in names if self.sees(name))
        return Reach(namespaces=seen, manages=seen if self.operates else seen & self.manages)


AUDITORS = frozenset({Role.Name.OPERATOR, Role.Name.AUDITOR})
ALL = Reach(everything=True, operates=True, audits=True)
NOTHING = Reach()


def reach_of(user: Any, view: View, token: ApiToken | None = None) -> Reach:
    """What a user (also an anonymous one) may see and change, by her roles and her groups'; by a token of hers, what
    of it the token's own roles and namespaces leave."""
    if not isinstance(user, User) or not user.is_active:
        return NOTHING
    only = frozenset(token.roles) if token is not None and token.roles else frozenset(Role.Name.values)
    found = _by_roles(user, view, only)
    return found.within(token.namespaces) if token is not None and token.namespaces else found


def _by_roles(user: User, view: View, only: frozenset[str]) -> Reach:
    """A superuser has every role everywhere."""
    mine = Role.objects.filter(Q(user=user) | Q(group__user=user), role__in=only).select_related("namespace")
    roles = [] if user.is_superuser else list(mine.distinct())
    everywhere = only if user.is_superuser else {row.role for row in roles if _everywhere(row)}
    scoped = [row for row in roles if not _everywhere(row)]
    manages = _namespaces((row for row in scoped if row.role in MANAGERS), view)
    return Reach(
        everything=bool(everywhere),
        operates=Role.Name.OPERATOR in everywhere,
        audits=bool(AUDITORS & everywhere),
        namespaces=frozenset(_namespaces(scoped, view)),
        tenants=frozenset(_tenants(scoped, view)),
        manages=frozenset(manages | set(view.namespaces if Role.Name.TENANT_ADMIN in everywhere else ())),
    )


def reach_for(request: HttpRequest) -> Reach:
    """The reach of who asks, and of the token by which she asks (`request.token`); found once per request."""
    found: Reach | None = getattr(request, "reach", None)
    if found is None:
        found = reach_of(request.user, live_view.live().refresh(), getattr(request, "token", None))
        request.reach = found  # type: ignore[attr-defined]
    return found


def visible(rows: QuerySet[Any], reach: Reach, column: str = "namespace") -> QuerySet[Any]:
    """The rows whose namespace column lies within the reach."""
    return rows if reach.everything else rows.filter(**{f"{column}__in": reach.namespaces})


def _everywhere(row: Role) -> bool:
    return row.tenant_id is None and row.namespace_id is None


def _namespaces(roles: Iterable[Role], view: View) -> set[str]:
    found: set[str] = set()
    for row in roles:
        if row.namespace is not None:
            found.add(row.namespace.name)
        elif row.tenant_id is not None:
            below = _below(row.tenant_id, view)
            found |= {one.name for one in view.namespaces.values() if one.tenant in below}
    return found


def _tenants(roles: Iterable[Role], view: View) -> set[int]:
    return {tenant for row in roles if row.tenant_id is not None for tenant in _below(row.tenant_id, view)}


def _below(tenant: int, view: View) -> set[int]:
    """The tenant and all under it."""
    found = {tenant}
    grown = True
    while grown:
        more = {row.id for row in view.tenants.values() if row.parent in found} - found
        found |= more
        grown = bool(more)
    return found
