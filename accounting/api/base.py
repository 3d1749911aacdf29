"""What every endpoint shares: who may call it, what it may be asked, how it answers and writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.views.decorators.gzip import gzip_page
from rest_framework import exceptions, permissions, renderers, views
from rest_framework.request import Request
from rest_framework.response import Response

from accounting.api import answers, described, identity, limits, problems
from accounting.models import ApiToken
from accounting.selectors import access
from accounting.services import access_log, attempts
from hami_platform import env

WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")
_KEY: Final = re.compile(r"[\x21-\x7e]{1,128}")


class Endpoint(views.APIView):
    """Base of all endpoints.

    asked: the query parameters there are beside those of every endpoint; None: whatever is sent is passed over.
    state: what stands for the row in the answer's validator. writes: whether this is a change that can be only tried.
    """

    schema: Any = described.Described()
    permission_classes: Any = (permissions.IsAuthenticated, identity.Scoped)
    authentication_classes: Any = identity.OF_PEOPLE
    throttle_classes: Any = (limits.PerCaller,)
    renderer_classes: Any = (renderers.JSONRenderer,)
    rate_limit: dict[str, str] | None = None
    asked: tuple[str, ...] | None = None
    writes = True
    state = ""

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        """Compressed for whoever takes it so."""
        return gzip_page(super().as_view(**initkwargs))

    def get_exception_handler(self) -> Any:
        """Problems, not DRF's own shapes."""
        return problems.handler

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Also refuses questions that nobody would answer, and keeps that a token was used."""
        super().initial(request, *args, **kwargs)
        self._refuse_unknown()
        if isinstance(request.auth, ApiToken):
            access_log.token_used(
                digest=request.auth.digest,
                name=request.auth.name,
                who=request.user.get_username(),
                address=str(request.META.get("REMOTE_ADDR", "")),
            )

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Every answer has a validator, tells what is left of the caller's limit, and is nobody else's."""
        plain = isinstance(response, Response)  # else a stream
        if plain and request.method == "GET" and response.status_code == 200:
            response = self._pruned(request, response)
        answer = super().finalize_response(request, response, *args, **kwargs)
        if plain and (answer.status_code >= 400 or request.method != "GET"):
            # Problems and what was written have no columns, whatever the caller wants.
            answer.accepted_renderer = renderers.JSONRenderer()
            answer.accepted_media_type = "application/json"
            if answer.status_code >= 400:
                answer.data["instance"] = request.path
        for name, text in (self.rate_limit or {}).items():
            answer[name] = text
        if "Cache-Control" not in answer:
            answer["Cache-Control"] = "private, no-cache"
        if plain and answer.status_code in (200, 201):
            answer.add_post_render_callback(partial(answers.tagged, request=request, state=self.state))
        return answer

    @property
    def reach(self) -> access.Reach:
        """What the caller may see. Raises PermissionDenied for nothing."""
        found = access.reach_for(identity.plain(self.request))
        if not found:
            raise PermissionDenied("no role in this cluster")
        return found

    @property
    def actor(self) -> str:
        """The name under which changes are journaled."""
        return str(self.request.user.get_username())

    @property
    def dry_run(self) -> bool:
        """Whether the change is only to be tried. Raises ValidationError for what is neither true nor false."""
        text = self.request.query_params.get("dry_run", "false").lower()
        if text not in ("true", "false"):
            raise exceptions.ValidationError({"dry_run": "true or false"})
        return text == "true"

    def written(self, act: Callable[[], attempts.Answer], *, cause: str) -> Response:
        """Make the change `act`, or only try it (`dry_run`), once for each `Idempotency-Key`."""
        dry_run, once = self.dry_run, self._once()
        found = attempts.attempt(
            act, cause=cause, actor=self.actor, dry_run=dry_run, once=None if dry_run else once
        )  # fmt: skip
        headers = {"Idempotent-Replayed": "true"} if found.repeated else {}
        return Response(found.body, status=found.status, headers=headers)

    def matched(self, state: str) -> None:
        """The row is as the caller saw it (`If-Match`). Raises answers.Changed, answers.Unconditional."""
        answers.matched(self.request, state)

    def _once(self) -> attempts.Once | None:
        key = self.request.headers.get("Idempotency-Key")
        if key is None or self.request.method != "POST":
            return None
        if not _KEY.fullmatch(key):
            raise exceptions.ValidationError({"Idempotency-Key": "1 to 128 visible ASCII characters"})
        asked = [self.request.method, self.request.path, self.request.data]
        return attempts.Once(int(self.request.user.pk or 0), key, asked)

    def _refuse_unknown(self) -> None:
        if self.asked is None or self.request.method == "OPTIONS":
            return
        asked = ("dry_run", "reason") if self.request.method in WRITES else ("fields", *self.asked)
        known = {"format", *asked}
        unknown = sorted(set(self.request.query_params) - known)
        if unknown:
            raise exceptions.ValidationError({unknown[0]: f"there is no such parameter; there are {_listed(known)}"})

    def _pruned(self, request: Request, response: Any) -> Any:
        names = [name.strip() for name in request.query_params.get("fields", "").split(",") if name.strip()]
        try:
            response.data = answers.pruned(response.data, names) if names else response.data
        except exceptions.ValidationError as fault:
            return problems.handler(fault, {"request": request})
        return response


class NothingHere(Endpoint):
    """Addresses that do not exist: a problem, like every other error."""

    schema = None
    permission_classes: Any = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Whatever the method."""
        raise Http404(f"nothing at {request.path}")


def cluster_name() -> str:
    """Of the cluster this process serves; names files."""
    return env.current().cluster


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
