"""What reading and writing share: bodies decoded, the dry-run flag, outcomes. Knows nothing of sockets."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from hami_platform.simulator.api import errors, protobuf, registry
from hami_platform.simulator.api.paths import Target
from hami_platform.simulator.api.store import Store, Stored
from hami_platform.simulator.api.types import Obj, Request

OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The object as answered and the HTTP status."""

    obj: Obj
    code: int = 200


def decoded(request: Request) -> Obj:
    """The body as an object. Raises ApiError 415 or 400."""
    media = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if media == protobuf.MEDIA_TYPE:
        return protobuf.decode(request.body)
    if media not in ("application/json", ""):
        raise errors.unsupported_media(media, ("application/json", protobuf.MEDIA_TYPE))
    try:
        found = msgspec.json.decode(request.body) if request.body else {}
    except msgspec.DecodeError as failure:
        raise errors.bad_request(f"the object provided is unrecognized (must be of type ...): {failure}") from failure
    if not isinstance(found, dict):
        raise errors.bad_request("the object provided is unrecognized: not a JSON object")
    return found


def is_dry_run(request: Request) -> bool:
    """True for `dryRun=All`. Raises ApiError for any other value."""
    value = request.query.get("dryRun")
    if value not in (None, "", "All"):
        raise errors.invalid(
            OPTIONS.get(request.method, "DeleteOptions"),
            "meta.k8s.io",
            "",
            [errors.Cause("dryRun", "FieldValueNotSupported", f'["{value}"]: supported values: "All"')],
        )
    return value == "All"


def stored(store: Store, target: Target) -> Stored:
    """The current version of what a path names. Raises ApiError 404."""
    found = store.get(registry.stored(target.resource), target.key)
    if found is None:
        raise errors.not_found(target.resource, target.name)
    return found
