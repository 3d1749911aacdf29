"""metav1.Status answers as exceptions, with the texts of the real server. Knows nothing of HTTP.

Source of texts and reasons: Kubernetes apimachinery pkg/api/errors and pkg/util/validation/field, v1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hami_platform.simulator.api.types import Obj, Resource


class ApiError(Exception):
    """The request is answered by a failure Status; the caller or the object is at fault unless the code is 5xx."""

    def __init__(self, code: int, reason: str, message: str, details: Obj | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
        }
        if reason:
            self.status["reason"] = reason
        if details:
            self.status["details"] = details
        self.status["code"] = code


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that is wrong: `kind` is field.ErrorType, `text` what follows the colon."""

    field: str
    kind: str
    text: str

    @property
    def message(self) -> str:
        """As the real server words it, without the field."""
        words = {
            "FieldValueInvalid": "Invalid value",
            "FieldValueRequired": "Required value",
            "FieldValueForbidden": "Forbidden",
            "FieldValueNotSupported": "Unsupported value",
            "FieldValueDuplicate": "Duplicate value",
            "FieldValueTooLong": "Too long",
        }
        return f"{words[self.kind]}: {self.text}" if self.text else words[self.kind]


def bad_value(field: str, value: Any, text: str) -> Cause:
    """`field: Invalid value: "value": text`."""
    shown = value if isinstance(value, int | float) else f'"{value}"'
    return Cause(field, "FieldValueInvalid", f"{shown}: {text}")


def unsupported(field: str, value: Any, allowed: Sequence[str]) -> Cause:
    """`field: Unsupported value: "value": supported values: …`."""
    words = ", ".join(f'"{word}"' for word in allowed)
    return Cause(field, "FieldValueNotSupported", f'"{value}": supported values: {words}')


def required(field: str, text: str = "") -> Cause:
    """`field: Required value: text`."""
    return Cause(field, "FieldValueRequired", text)


def forbidden_field(field: str, text: str) -> Cause:
    """`field: Forbidden: text`."""
    return Cause(field, "FieldValueForbidden", text)


def _details(resource: Resource, name: str) -> Obj:
    details: Obj = {"name": name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details


def not_found(resource: Resource, name: str) -> ApiError:
    """404 for an object."""
    return ApiError(404, "NotFound", f'{resource.qualified} "{name}" not found', _details(resource, name))


def no_such_path() -> ApiError:
    """404 for a path or resource that is not served."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str) -> ApiError:
    """409 on create."""
    return ApiError(409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', _details(resource, name))


def storage_conflict(resource: Resource, key: tuple[str, str], field: str, given: str, found: str) -> ApiError:
    """409 from the storage layer: a uid or resourceVersion precondition that does not hold."""
    where = "/".join(("/registry", resource.plural, *filter(None, key)))
    text = f"Precondition failed: {field} in precondition: {given}, {field} in object meta: {found}"
    said = f"StorageError: invalid object, Code: 4, Key: {where}, ResourceVersion: 0, AdditionalErrorMsg: {text}"
    return conflict(resource, key[1], said)


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: Resource, name: str, text: str = MODIFIED, sub: str = "") -> ApiError:
    """409 on a precondition or an object that moved on."""
    what = f"{resource.plural}/{sub}" + (f".{resource.group}" if resource.group else "") if sub else resource.qualified
    details = _details(resource, name)
    details["kind"] = f"{resource.plural}/{sub}" if sub else resource.plural
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on {what} "{name}": {text}', details)


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422 with every wrong field."""
    full = f"{kind}.{group}" if group else kind
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    said = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details: Obj = {"name": name, "kind": kind, "causes": [_cause(cause) for cause in causes]}
    if group:
        details["group"] = group
    return ApiError(422, "Invalid", f'{full} "{name}" is invalid: {said}', details)


def _cause(cause: Cause) -> Obj:
    return {"reason": cause.kind, "message": cause.message, "field": cause.field}


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def unprocessable(message: str) -> ApiError:
    """422 for a patch that cannot be applied."""
    return ApiError(422, "Invalid", message, {})


def terminating(resource: Resource, name: str, namespace: str) -> ApiError:
    """403 for a new object in a namespace that is going away."""
    text = f"unable to create new content in namespace {namespace} because it is being terminated"
    details = _details(resource, name)
    cause = f"namespace {namespace} is being terminated"
    details["causes"] = [{"reason": "NamespaceTerminating", "message": cause, "field": "metadata.namespace"}]
    return ApiError(403, "Forbidden", f'{resource.qualified} "{name}" is forbidden: {text}', details)


def unauthorized() -> ApiError:
    """401."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def expired(message: str) -> ApiError:
    """410 for a resourceVersion or continue token that is no longer kept."""
    return ApiError(410, "Expired", message)


def too_large_revision(asked: int, current: int) -> ApiError:
    """504 for a revision that does not exist yet."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return ApiError(504, "Timeout", f"Timeout: Too large resource version: {asked}, current: {current}", details)


def internal(message: str) -> ApiError:
    """500."""
    details = {"causes": [{"message": message}]}
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", details)


def unsupported_media(got: str, accepted: Sequence[str]) -> ApiError:
    """415."""
    said = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiError(415, "UnsupportedMediaType", said + (f" (got {got})" if got else ""))


def not_acceptable() -> ApiError:
    """406."""
    return ApiError(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/json;stream=watch",
    )


def method_not_allowed() -> ApiError:
    """405."""
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})
