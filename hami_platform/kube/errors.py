"""What can go wrong when the API server is asked something; one class per situation.

The distinction that matters for a write is whether the outcome is known: an `ApiError` is an
answer (the server did not do it), `Unreachable` was never sent, and after `Ambiguous` the write
may or may not have happened. Must not know: how requests are sent, or what they are for.
"""

from __future__ import annotations


class KubeError(Exception):
    """Any failure of a call to the API server."""


class Unreachable(KubeError):
    """The request was certainly not sent: refused connection, unknown host, TLS not agreed."""


class Ambiguous(KubeError):
    """The request may have been carried out: time-out, reset connection, 5xx, unreadable answer."""


class Misconfigured(KubeError):
    """The operator's fault: no usable kubeconfig and no service account to fall back to."""


class ApiError(KubeError):
    """The API server refused; it did nothing.

    `code` is the HTTP status, `reason` the machine-readable word of its Status object
    ("" where there was none), `message` its sentence.
    """

    def __init__(self, code: int, reason: str, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(f"{code} {reason}: {message}" if reason else f"{code}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s


class Unauthorized(ApiError):
    """401 or 403: our credentials are missing, expired, or may not do this."""


class NotFound(ApiError):
    """404: the object (or its namespace) does not exist."""


class Conflict(ApiError):
    """409: a precondition failed, or the object exists already (`already_exists`)."""

    @property
    def already_exists(self) -> bool:
        """The object that was to be created is there; not a failed precondition."""
        return self.reason == "AlreadyExists"


class Gone(ApiError):
    """410: the asked revision or continue token is too old; list again."""


class Unprocessable(ApiError):
    """422: the object is invalid, or an admission webhook denied it."""


class Throttled(ApiError):
    """429: asked too often; not before `retry_after_s` (0: the server did not say)."""


_BY_CODE: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Unprocessable,
    429: Throttled,
}


def refused(code: int, reason: str, message: str, retry_after_s: float = 0.0) -> KubeError:
    """The error for an answer with this HTTP status (400 or more).

    5xx is `Ambiguous`: a gateway time-out may hide a write that succeeded.
    """
    if code >= 500:
        return Ambiguous(f"{code} {reason}: {message}")
    return _BY_CODE.get(code, ApiError)(code, reason, message, retry_after_s)
