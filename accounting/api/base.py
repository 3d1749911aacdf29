"""What every endpoint shares: who may call it, problems as answers, pages of lists."""

from __future__ import annotations

import hmac
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from knox.auth import TokenAuthentication
from rest_framework import authentication, generics, pagination, permissions, views
from rest_framework.request import Request

from accounting.api import limits, problems
from accounting.models import ApiToken
from accounting.selectors import access
from accounting.services import access_log, people
from hami_platform import env

INTERNAL = limits.INTERNAL
"""What stands for the shared token where a request carries its token."""


class Scoped(permissions.BasePermission):
    """A token does what its scopes say; without scopes, and in a browser session, all that the person may."""

    message = "The token's scopes do not allow this."

    def has_permission(self, request: Request, view: Any) -> bool:
        """Reading needs `read` or `write`, writing needs `write`."""
        scopes = request.auth.scopes if isinstance(request.auth, ApiToken) else []
        allowed = {"read", "write"} if request.method in permissions.SAFE_METHODS else {"write"}
        return not scopes or bool(allowed & set(scopes))


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

    target_class = "accounting.api.base.InternalToken"
    name = "internalToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """A bearer token."""
        return {"type": "http", "scheme": "bearer", "description": "The installation's INTERNAL_TOKEN."}


class Agent:
    """The user behind the internal token: an agent, nobody in particular."""

    is_authenticated = True
    is_active = True
    username = "agent"


class IsAgent(permissions.BasePermission):
    """The internal token, a token with the scope `agent`, or an operator's token without scopes."""

    message = "This needs an agent's token."

    def has_permission(self, request: Request, view: Any) -> bool:
        """Whether the report may be believed."""
        if request.auth == INTERNAL:
            return True
        if not isinstance(request.auth, ApiToken):
            return False
        scopes = request.auth.scopes
        return people.AGENT in scopes or (not scopes and access.reach_for(_plain(request)).operates)


class Pages(pagination.LimitOffsetPagination):
    """`limit` (at most 500) and `offset`."""

    default_limit = 100
    max_limit = 500


class Endpoint(views.APIView):
    """Base of all endpoints."""

    schema: Any = problems.ProblemSchema()
    permission_classes: Any = (permissions.IsAuthenticated, Scoped)
    authentication_classes: Any = (TokenAuthentication, authentication.SessionAuthentication)
    throttle_classes: Any = (limits.PerCaller,)
    rate_limit: dict[str, str] | None = None

    def get_exception_handler(self) -> Any:
        """Problems, not DRF's own shapes."""
        return problems.handler

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Also keeps that a token was used."""
        super().initial(request, *args, **kwargs)
        if isinstance(request.auth, ApiToken):
            access_log.token_used(
                digest=request.auth.digest,
                name=request.auth.name,
                who=request.user.get_username(),
                address=str(request.META.get("REMOTE_ADDR", "")),
            )

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Every answer tells the caller what is left of its limit."""
        answer = super().finalize_response(request, response, *args, **kwargs)
        for name, text in (self.rate_limit or {}).items():
            answer[name] = text
        return answer

    @property
    def reach(self) -> access.Reach:
        """What the caller may see. Raises PermissionDenied for nothing."""
        found = access.reach_for(_plain(self.request))
        if not found:
            raise PermissionDenied("no role in this cluster")
        return found

    @property
    def actor(self) -> str:
        """The name under which changes are journaled."""
        return str(self.request.user.get_username())


class ListEndpoint(Endpoint, generics.ListAPIView[Any]):
    """A list of rows, in pages."""

    pagination_class = Pages
    filter_backends: Any = ()


class NothingHere(Endpoint):
    """Addresses that do not exist: a problem, like every other error."""

    schema = None
    permission_classes: Any = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Whatever the method."""
        raise Http404(f"nothing at {request.path}")


def _plain(request: Request) -> HttpRequest:
    """Django's request, which keeps the reach, with the user whom DRF found."""
    plain = request._request
    plain.user = request.user
    return plain
