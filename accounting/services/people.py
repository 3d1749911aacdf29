"""Who may do what where: roles of people and groups."""

from __future__ import annotations

from django.contrib.auth.models import Group

from accounting import ledger
from accounting.models import Namespace, Role, Tenant, User
from accounting.services import edits, errors
from hami_platform.domain.sentences import phrase


def role_grant(
    *, role: str, user: str = "", group: str = "", tenant: str = "", namespace: str = "", reason: str, actor: str = ""
) -> Role:
    """Let a user or a group (by name) be something in a tenant, a namespace, or, with neither, everywhere.

    A role that exists already is returned as it is. Raises InvalidInput.
    """
    reason = edits.reason_checked(reason)
    if role not in Role.Name.values:
        raise errors.InvalidInput("role", phrase("one of %(names)s", names=", ".join(Role.Name.values)))
    if bool(user) == bool(group):
        raise errors.InvalidInput("user", phrase("name one user or one group"))
    if tenant and namespace:
        raise errors.InvalidInput("namespace", phrase("name a tenant or a namespace, not both"))
    with ledger.transaction(cause="role_grant", actor=actor) as entry:
        columns = {"role": role, **_subject(user, group), **_scope(entry, tenant, namespace)}
        found = Role.objects.filter(**columns).first()
        if found is not None:
            return found
        row = Role.objects.create(**columns)
        entry.record(
            "role",
            row.pk,
            role=role,
            who=user or f"group {group}",
            where=tenant or namespace or "everywhere",
            reason=reason,
        )
    return row


def role_revoke(*, role_id: int, reason: str, actor: str = "") -> None:
    """Take a role away. Raises InvalidInput."""
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="role_revoke", actor=actor) as entry:
        row = Role.objects.filter(pk=role_id).first()
        if row is None:
            raise errors.InvalidInput("role", phrase("is gone already"))
        entry.record("role", row.pk, role=row.role, who=str(row.user or row.group), deleted=True, reason=reason)
        row.delete()


def _subject(user: str, group: str) -> dict[str, User | Group]:
    if user:
        person = User.objects.filter(username=user).first()
        if person is None:
            raise errors.InvalidInput("user", phrase("there is no user %(name)s", name=user))
        return {"user": person}
    team = Group.objects.filter(name=group).first()
    if team is None:
        raise errors.InvalidInput("group", phrase("there is no group %(name)s", name=group))
    return {"group": team}


def _scope(entry: ledger.Entry, tenant: str, namespace: str) -> dict[str, Tenant | Namespace | None]:
    cluster = entry.clock.cluster_id
    if tenant:
        row = Tenant.objects.filter(cluster=cluster, name=tenant).first()
        if row is None:
            raise errors.InvalidInput("tenant", phrase("there is no tenant %(name)s", name=tenant))
        return {"tenant": row, "namespace": None}
    if namespace:
        place = Namespace.objects.filter(cluster=cluster, name=namespace).first()
        if place is None:
            raise errors.InvalidInput("namespace", phrase("there is no namespace %(name)s", name=namespace))
        return {"tenant": None, "namespace": place}
    return {"tenant": None, "namespace": None}
