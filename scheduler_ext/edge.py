"""How bodies come in and go out: bytes of bounded size in, one fast JSON encoder out.

Must not know: any one protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import msgspec
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler_ext import protocol

JSON = "application/json"


class BytesParser(BaseParser):
    """The body as it came. Reading stops one byte after the view's `limit`, so that a larger one is noticed."""

    media_type = "*/*"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """At most limit + 1 bytes."""
        view = (parser_context or {})["view"]
        return bytes(stream.read(view.limit + 1))


class StructRenderer(BaseRenderer):
    """Typed values as JSON."""

    media_type = JSON
    format = "json"
    charset = None

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """Encode; nothing for no data."""
        return b"" if data is None else msgspec.json.encode(data)


class MachineView(APIView):
    """Base of what kube-apiserver and kube-scheduler call. Who may call is the listener's business (address, TLS)."""

    authentication_classes = ()
    permission_classes = ()
    throttle_classes = ()
    parser_classes = (BytesParser,)
    renderer_classes = (StructRenderer,)
    schema = None
    limit = 1 << 20

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Encodes at once, then lets go: view, request and answer hold each other, and with thousands of nodes in each
        call a hundred of them would wait for the garbage collector in 60 MiB."""
        response = super().dispatch(request, *args, **kwargs)
        if isinstance(response, Response):
            response.render()
            vars(response)["renderer_context"] = {}
            self.request.parser_context.clear()
        return response

    def body(self, request: Request) -> bytes:
        """The whole body. Raises BadBody when it is larger than the view reads."""
        data: Any = request.data
        if not isinstance(data, bytes):
            return b""  # an empty body is not parsed at all
        if len(data) > self.limit:
            raise protocol.BadBody(f"the body is larger than {self.limit} bytes")
        return data


def text(content: str | bytes, *, status: int = 200, content_type: str = "text/plain; charset=utf-8") -> HttpResponse:
    """A plain answer."""
    return HttpResponse(content, status=status, content_type=content_type)


def method_not_allowed(request: HttpRequest) -> HttpResponse | None:
    """The answer to anything but a read, else None."""
    if request.method in {"GET", "HEAD"}:
        return None
    answer = text("Method Not Allowed", status=405)
    answer["Allow"] = "GET, HEAD"
    return answer
