"""How the schema describes what all operations share: problems, CSV, what a write and a list may be asked."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

from accounting.api import problems

FIELDS: Final = OpenApiParameter("fields", str, description="Only these fields, joined by commas.")
DRY_RUN: Final = OpenApiParameter("dry_run", bool, description="Only try it: the answer, and nothing written.")
IF_MATCH: Final = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, description="The ETag that was read, or *. 412: it was changed meanwhile."
)
ONCE: Final = OpenApiParameter(
    "Idempotency-Key", str, OpenApiParameter.HEADER, description="A repeat gets the first answer and changes nothing."
)
CSV: Final = "text/csv"


class Described(AutoSchema):
    """Every operation may answer with a problem; reads take `fields`, writes `dry_run`."""

    def get_override_parameters(self) -> list[Any]:
        """What is not said for each operation again."""
        if self.method == "GET":
            return [FIELDS]
        if not getattr(self.view, "writes", False):
            return []
        return [DRY_RUN, ONCE if self.method == "POST" else IF_MATCH]

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        bodies = super()._get_response_bodies(direction)
        bodies["default"] = self._get_response_for_code(  # type: ignore[no-untyped-call]
            problems.Problem, "default", media_types=[problems.MEDIA_TYPE]
        )
        for code, body in bodies.items():
            _free_csv(body, keep=code == "200" and self.method == "GET")
        return bodies


def _free_csv(body: dict[str, Any], *, keep: bool) -> None:
    """CSV is text, whatever shape the same rows have as JSON; only reads answer so."""
    content = body.get("content", {})
    if CSV in content:
        content[CSV] = {"schema": {"type": "string"}}
        if not keep:
            del content[CSV]
