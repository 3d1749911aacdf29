"""People, groups, roles and tokens. Superusers only: who hands out roles could hand out any."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.db.models import Model
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounting.admin.console import LedgerAdmin, ReasonForm, actor_of, site
from accounting.models import ApiToken, Role, User
from accounting.services import people, tokens


class SuperusersOnly:
    """Mixin: every permission is the superuser's."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return bool(request.user.is_superuser)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return bool(request.user.is_superuser)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return bool(request.user.is_superuser)


@admin.register(User, site=site)
class PersonAdmin(SuperusersOnly, UserAdmin):
    """Accounts. What they may do is a matter of roles, so Django's own permissions are not offered."""

    fieldsets = (
        (None, {"fields": ("username", "password")}),
        (_("Personal info"), {"fields": ("first_name", "last_name", "email", "language")}),
        (_("Access"), {"fields": ("is_active", "is_staff", "is_superuser", "groups")}),
        (_("Important dates"), {"fields": ("last_login", "date_joined")}),
    )
    filter_horizontal = ()


@admin.register(Group, site=site)
class TeamAdmin(SuperusersOnly, GroupAdmin):
    """Groups, to which roles can be given."""

    fields = ("name",)
    filter_horizontal = ()


@admin.register(Role, site=site)
class RoleAdmin(SuperusersOnly, LedgerAdmin):
    """Who may do what where. A role is granted or revoked, never edited."""

    list_display = ("user", "group", "role", "tenant", "namespace")
    list_filter = ("role",)
    list_select_related = ("user", "group", "tenant", "namespace")
    search_fields = ("user__username", "group__name", "tenant__name", "namespace__name")
    fields = ("user", "group", "role", "tenant", "namespace", "reason")

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """A role that was granted is shown without what is only asked for then."""
        return self.fields if obj is None else self.fields[:-1]

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def write(self, request: HttpRequest, row: Role, data: dict[str, Any], *, new: bool) -> Model:
        return people.role_grant(
            role=data["role"],
            user=data["user"].get_username() if data["user"] else "",
            group=data["group"].name if data["group"] else "",
            tenant=data["tenant"].name if data["tenant"] else "",
            namespace=data["namespace"].name if data["namespace"] else "",
            reason=data["reason"],
            actor=actor_of(request),
        )

    def remove(self, request: HttpRequest, row: Role, reason: str) -> None:
        people.role_revoke(role_id=row.pk, reason=reason, actor=actor_of(request))


class TokenForm(ReasonForm):
    """What a new token is for and how long it lives."""

    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in tokens.SCOPES],
        required=False,
        label=_("Scopes"),
        help_text=_("Nothing chosen: all its user may."),
    )
    roles = forms.MultipleChoiceField(
        choices=Role.Name.choices,
        required=False,
        label=_("Roles"),
        help_text=_("Nothing chosen: all of its user's roles count."),
    )
    namespaces = forms.CharField(
        required=False, label=_("Namespaces"), help_text=_("Names, separated by blanks. Empty: all its user sees.")
    )
    networks = forms.CharField(
        required=False,
        label=_("Networks"),
        help_text=_("Where it may be used from, as 10.0.0.0/8, separated by blanks. Empty: anywhere."),
    )
    lives_days = forms.IntegerField(
        min_value=1, required=False, label=_("Lives for, days"), help_text=_("Empty: until it is revoked.")
    )


@admin.register(ApiToken, site=site)
class TokenAdmin(SuperusersOnly, LedgerAdmin):
    """Tokens of scripts and node agents. Their text is shown once, when they are made."""

    form = TokenForm
    list_display = ("token_key", "name", "user", "scopes", "created", "expiry")
    list_select_related = ("user",)
    search_fields = ("name", "user__username", "token_key")
    fields = ("user", "name", "scopes", "roles", "namespaces", "networks", "lives_days", "reason")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """A stored token is shown without what can only be given at its making."""
        if obj is None:
            return self.fields
        return ("token_key", "user", "name", "scopes", "roles", "namespaces", "networks", "created", "expiry")

    def write(self, request: HttpRequest, row: ApiToken, data: dict[str, Any], *, new: bool) -> Model:
        days = data["lives_days"]
        bounds = tokens.Bounds(
            tuple(data["scopes"]),
            tuple(data["roles"]),
            tuple(data["namespaces"].split()),
            tuple(data["networks"].split()),
        )
        token, text = tokens.token_create(
            user=data["user"].get_username(),
            name=data["name"],
            bounds=bounds,
            lives_s=days * 86_400 if days else None,
            actor=actor_of(request),
        )
        self.message_user(request, gettext("The token, shown only now: %(text)s") % {"text": text}, messages.WARNING)
        return token

    def remove(self, request: HttpRequest, row: ApiToken, reason: str) -> None:
        tokens.token_revoke(digest=row.digest, reason=reason, actor=actor_of(request))
