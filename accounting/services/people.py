"""Who may do what where, and the tokens that act for people and node agents."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import Group

from accounting import ledger
from accounting.models import ApiToken, Namespace, Role, Tenant, User
from accounting.services import edits, errors

AGENT = "agent"
"""Scope of a node agent's token: reports only."""

SCOPES = (AGENT, "read", "write")


def role_grant(
    *, role: str, user: str = "", group: str = "", tenant: str = "", namespace: str = "", reason: str, actor: str = ""
) -> Role:
    """Let a user or a group (by name) be something in a tenant, a namespace, or, with neither, everywhere.

    A role that exists already is returned as it is. Raises InvalidInput.
    """
    reason = edits.reason_checked(reason)
    if role not in Role.Name.values:
        raise errors.InvalidInput("role", f"one of {', '.join(Role.Name.values)}")
    if bool(user) == bool(group):
        raise errors.InvalidInput("user", "name one user or one group")
    if tenant and namespace:
        raise errors.InvalidInput("namespace", "name a tenant or a namespace, not both")
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
            raise errors.InvalidInput("role", "is gone already")
        entry.record("role", row.pk, role=row.role, who=str(row.user or row.group), deleted=True, reason=reason)
        row.delete()


def token_create(
    *, user: str, name: str = "", scopes: list[str] | None = None, lives_s: int | None = None, actor: str = ""
) -> tuple[ApiToken, str]:
    """A new token of this user, and its text, which is shown once and stored only as a hash. Raises InvalidInput."""
    owner = User.objects.filter(username=user, is_active=True).first()
    if owner is None:
        raise errors.InvalidInput("user", f"there is no active user {user}")
    unknown = sorted(set(scopes or ()) - set(SCOPES))
    if unknown:
        raise errors.InvalidInput("scopes", f"unknown: {', '.join(unknown)}; known are {', '.join(SCOPES)}")
    if lives_s is not None and lives_s <= 0:
        raise errors.InvalidInput("lives_s", "must be positive, or empty for a token without end")
    with ledger.transaction(cause="token_create", actor=actor) as entry:
        row, text = ApiToken.objects.create(
            owner, expiry=timedelta(seconds=lives_s) if lives_s else None, name=name[:100], scopes=scopes or []
        )
        entry.record("token", row.token_key, user=user, name=name[:100], scopes=scopes or [])
    return row, text


def token_revoke(*, digest: str, reason: str, actor: str = "") -> None:
    """End a token at once. Raises InvalidInput."""
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="token_revoke", actor=actor) as entry:
        row = ApiToken.objects.select_related("user").filter(digest=digest).first()
        if row is None:
            raise errors.InvalidInput("token", "is gone already")
        entry.record("token", row.token_key, user=row.user.get_username(), deleted=True, reason=reason)
        row.delete()


def _subject(user: str, group: str) -> dict[str, User | Group]:
    if user:
        person = User.objects.filter(username=user).first()
        if person is None:
            raise errors.InvalidInput("user", f"there is no user {user}")
        return {"user": person}
    team = Group.objects.filter(name=group).first()
    if team is None:
        raise errors.InvalidInput("group", f"there is no group {group}")
    return {"group": team}


def _scope(entry: ledger.Entry, tenant: str, namespace: str) -> dict[str, Tenant | Namespace | None]:
    cluster = entry.clock.cluster_id
    if tenant:
        row = Tenant.objects.filter(cluster=cluster, name=tenant).first()
        if row is None:
            raise errors.InvalidInput("tenant", f"there is no tenant {tenant}")
        return {"tenant": row, "namespace": None}
    if namespace:
        place = Namespace.objects.filter(cluster=cluster, name=namespace).first()
        if place is None:
            raise errors.InvalidInput("namespace", f"there is no namespace {namespace}")
        return {"tenant": None, "namespace": place}
    return {"tenant": None, "namespace": None}
