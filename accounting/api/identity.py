"""Who calls: tokens of people and agents, the installation's own token, and what each of them may be used for."""

from __future__ import annotations

import hmac
from typing import Any

from django.http import HttpRequest
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from knox.auth import TokenAuthentication
from rest_framework import authentication, exceptions, permissions
from rest_framework.request import Request

from accounting.api import limits
from accounting.models import AccessRecord, ApiToken
from accounting.selectors import access
from accounting.services import access_log, tokens
from hami_platform import env

INTERNAL = limits.INTERNAL
"""What stands for the shared token where a request carries its token."""


class Bearer(TokenAuthentication):
    """A person's or an agent's token, from where it may be used."""

    def authenticate(self, request: Request) -> tuple[Any, ApiToken] | None:
        """As knox; a token that is used from elsewhere is refused, and that is kept."""
        found: tuple[Any, ApiToken] | None = super().authenticate(request)
        address = str(request.META.get("REMOTE_ADDR", ""))
        if found is not None and not tokens.usable_from(found[1], address):
            who, how = found[0].get_username(), f"token {found[1].name or found[1].token_key}"
            access_log.record(AccessRecord.Kind.KEPT_OUT, who=who, how=how, address=address)
            raise exceptions.AuthenticationFailed(f"This token may not be used from {address}.")
        return found

    def authenticate_credentials(self, token: bytes) -> tuple[Any, ApiToken]:
        """As knox, which falls over what is no text."""
        if not token.isascii():
            raise exceptions.AuthenticationFailed("Invalid token.")
        found: tuple[Any, ApiToken] = super().authenticate_credentials(token)
        return found


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the schema names it; found by being imported."""

    target_class = "accounting.api.identity.Bearer"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """A bearer token."""
        return {"type": "http", "scheme": "bearer", "description": "A token made on the page Tokens."}


class InternalToken(authentication.BaseAuthentication):
    """The one token that all agents of an installation may share (setting INTERNAL_TOKEN)."""

    def authenticate(self, request: Request) -> tuple[Agent, str] | None:
        """An Agent for the right token; None leaves it to the next authentication."""
        expected = env.current().internal_token
        kind, _, sent = authentication.get_authorization_header(request).partition(b" ")
        if not expected or kind.lower() != b"bearer" or not hmac.compare_digest(sent.strip(), expected.encode()):
            return None
        return Agent(), INTERNAL

    def authenticate_header(self, request: Request) -> str:
        """What a 401 asks for."""
        return "Bearer"


class InternalTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the schema names it; found by being imported."""

    target_class = "accounting.api.identity.InternalToken"
    name = "internalToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """A bearer token."""
        return {"type": "http", "scheme": "bearer", "description": "The installation's INTERNAL_TOKEN."}


class Agent:
    """The user behind the internal token: an agent, nobody in particular."""

    is_authenticated = True
    is_active = True
    username = "agent"


class Scoped(permissions.BasePermission):
    """A token does what its scopes say; without scopes, and in a browser session, all that the person may."""

    message = "The token's scopes do not allow this."

    def has_permission(self, request: Request, view: Any) -> bool:
        """Reading needs `read` or `write`, writing needs `write`."""
        return scoped(request, {"read", "write"} if request.method in permissions.SAFE_METHODS else {"write"})


class Asks(Scoped):
    """A POST that only asks: reading is enough for it."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Needs `read` or `write`."""
        return scoped(request, {"read", "write"})


class IsAgent(permissions.BasePermission):
    """The internal token, a token with the scope `agent`, or an operator's token that nothing narrows."""

    message = "This needs an agent's token."

    def has_permission(self, request: Request, view: Any) -> bool:
        """Whether the report may be believed."""
        if request.auth == INTERNAL:
            return True
        if not isinstance(request.auth, ApiToken):
            return False
        scopes = request.auth.scopes
        return tokens.AGENT in scopes or (not scopes and access.reach_for(plain(request)).operates)


OF_AGENTS: Any = (InternalToken, Bearer)
OF_PEOPLE: Any = (Bearer, authentication.SessionAuthentication)


def scoped(request: Request, wanted: set[str]) -> bool:
    """Whether the caller's token, if it came with one, has one of these scopes."""
    scopes = request.auth.scopes if isinstance(request.auth, ApiToken) else []
    return not scopes or bool(wanted & set(scopes))


def plain(request: Request) -> HttpRequest:
    """Django's request, which keeps the reach, with the user and the token that DRF found."""
    inner = request._request
    inner.user = request.user
    inner.token = request.auth if isinstance(request.auth, ApiToken) else None  # type: ignore[attr-defined]
    return inner
