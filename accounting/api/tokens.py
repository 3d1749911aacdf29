"""Tokens over REST: a person's own; all of them for auditors to look at and for superusers to change."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from accounting.api import identity, rows
from accounting.api.base import Endpoint
from accounting.api.lists import ListEndpoint
from accounting.models import ApiToken, Role
from accounting.selectors import access
from accounting.services import attempts, tokens

NO_REASON = "no longer needed"


class TokenShape(drf.ModelSerializer[ApiToken]):
    """A token, without its text."""

    key = drf.CharField(source="token_key", help_text="How its text begins.")
    user = drf.CharField(source="user.username")
    scopes = drf.ListField(child=drf.CharField())
    roles = drf.ListField(child=drf.CharField())
    namespaces = drf.ListField(child=drf.CharField())
    networks = drf.ListField(child=drf.CharField())

    class Meta:
        model = ApiToken
        fields: tuple[str, ...] = (
            "key",
            "user",
            "name",
            "scopes",
            "roles",
            "namespaces",
            "networks",
            "created",
            "expiry",
        )


class TokenMade(TokenShape):
    """A new token, with its text."""

    token = drf.CharField(allow_null=True, read_only=True, help_text="Told once; null in repeats and dry runs.")

    class Meta(TokenShape.Meta):
        fields = (*TokenShape.Meta.fields, "token")


class TokenNew(drf.Serializer[Any]):
    """What a token is for. Empty lists narrow nothing."""

    name = drf.CharField(max_length=100)
    days = drf.IntegerField(min_value=1, max_value=tokens.DAYS_MOST, default=90, help_text="How long it lives.")
    scopes = drf.ListField(child=drf.ChoiceField(tokens.SCOPES), default=list, max_length=10)
    roles = drf.ListField(child=drf.ChoiceField(Role.Name.values), default=list, max_length=10)
    namespaces = drf.ListField(child=drf.CharField(max_length=63), default=list, max_length=50)
    networks = drf.ListField(
        child=drf.CharField(max_length=43), default=list, max_length=50, help_text="Such as 10.0.0.0/8."
    )
    user = drf.CharField(max_length=150, required=False, default="", help_text="Superusers only; empty: you.")


class Revocation(drf.Serializer[Any]):
    """Why."""

    reason = drf.CharField(max_length=2000, required=False, default=NO_REASON)


class TokenFilter(filters.FilterSet):
    """By person and name."""

    user = filters.CharFilter(field_name="user__username")

    class Meta:
        model = ApiToken
        fields = ("name",)


class TokensEndpoint(ListEndpoint):
    """One's own tokens; every token for operators and auditors of the whole cluster."""

    serializer_class = TokenShape
    queryset = ApiToken.objects.none()
    filterset_class = TokenFilter
    search_fields = ("name", "user__username", "token_key")
    ordering_fields = ("name", "created", "expiry")
    file_name = "tokens"
    asked = ()

    def get_queryset(self) -> Any:
        return _visible(self).order_by("-created", "digest")

    @extend_schema(operation_id="token_add", request=TokenNew, responses={201: TokenMade})
    def post(self, request: Request) -> Response:
        """Make one. The answer has its text, which nobody can be told again."""
        form = TokenNew(data=request.data)
        form.is_valid(raise_exception=True)
        data, owner = form.validated_data, form.validated_data["user"] or self.actor
        if owner != self.actor and not request.user.is_superuser:
            raise PermissionDenied("tokens of others are made by superusers")
        bounds = tokens.Bounds(*(tuple(data[name]) for name in ("scopes", "roles", "namespaces", "networks")))

        def act() -> attempts.Answer:
            row, text = tokens.own_token_create(
                user=owner,
                name=data["name"],
                bounds=bounds,
                days=data["days"],
                operates=self.reach.operates,
                by=identity.plain(request).token,  # type: ignore[attr-defined]  # put there by `plain`
                actor=self.actor,
            )
            shown = dict(TokenShape(row).data)
            secret = {**shown, "token": None if self.dry_run else text}
            return attempts.Answer(201, secret, kept={**shown, "token": None})

        answer = self.written(act, cause="token_create")
        answer["Cache-Control"] = "no-store"
        return answer


class TokenEndpoint(Endpoint):
    """One token."""

    asked = ()

    @extend_schema(operation_id="token", responses=TokenShape)
    def get(self, request: Request, key: str) -> Response:
        """By key."""
        return Response(TokenShape(self._row(key)).data)

    @extend_schema(operation_id="token_revoke", request=Revocation, responses={204: None})
    def delete(self, request: Request, key: str) -> Response:
        """End it at once. This needs no `If-Match`: a token never changes."""
        form = Revocation(data=request.data or request.query_params)
        form.is_valid(raise_exception=True)

        def act() -> attempts.Answer:
            row = self._row(key)
            if row.user_id != request.user.pk and not (request.user.is_superuser and self.reach.operates):
                raise PermissionDenied("tokens of others are revoked by superusers")
            tokens.token_revoke(digest=row.digest, reason=form.validated_data["reason"], actor=self.actor)
            return attempts.Answer(204, None)

        return self.written(act, cause="token_revoke")

    def _row(self, key: str) -> ApiToken:
        row: ApiToken = rows.found(_visible(self).filter(token_key=key).first(), f"no token {key}")
        return row


def _visible(endpoint: Endpoint) -> Any:
    """Everybody has her own, with or without a role."""
    found = ApiToken.objects.select_related("user")
    reach = access.reach_for(identity.plain(endpoint.request))
    return found if reach.audits else found.filter(user=endpoint.request.user)
