"""Who calls, by bearer token: the API server says whose it is (TokenReview).

What it said is remembered for a minute, by the token's hash, so that a busy caller costs no review a call and a wrong
token no more than one. Must not know: what is asked.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from rest_framework import status
from rest_framework.authentication import get_authorization_header
from rest_framework.request import Request
from rest_framework.response import Response

from accounting.services import cluster_api
from hami_platform import env, logs
from hami_platform.kube import calls, errors

_log = logs.get(__name__)

REMEMBERED_S, MOST = 60.0, 1000
CALL_S = 1.0


class Names:
    """Token → user and group names it stands for, none for nobody's; asked at most once a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, tuple[str, ...]]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, token: bytes) -> tuple[str, ...]:
        """Raises errors.KubeError while it cannot be asked; a failure is not remembered."""
        key = hashlib.sha256(token).digest()
        with self._lock:
            known = self._known.get(key)
        if known is not None and self._clock() < known[0]:
            return known[1]
        asked = calls.token_review(token=token.decode("latin-1"))
        found = cluster_api.cluster_api().send(asked, timeout_s=CALL_S).status
        names = (found.user.username, *found.user.groups) if found.authenticated else ()
        with self._lock:
            self._known[key] = (self._clock() + REMEMBERED_S, names)
            self._known.move_to_end(key)
            while len(self._known) > MOST:
                self._known.popitem(last=False)
        return names

    def forget(self) -> None:
        """Ask anew (tests)."""
        with self._lock:
            self._known.clear()


names = Names()


def bearer(request: Request) -> bytes:
    """The bearer token of a request, or nothing."""
    kind, _, sent = get_authorization_header(request).partition(b" ")
    return sent.strip() if kind.lower() == b"bearer" else b""


def refused(request: Request) -> Response | None:
    """The answer to a caller of the extender who may not ask; None for one who may, and where no token is asked for."""
    allowed = env.current().extender_token_users
    if not allowed:
        return None
    token = bearer(request)
    try:
        if token and set(allowed) & set(names.of(token)):
            return None
    except errors.KubeError as error:
        _log.warning("token_unchecked", error=str(error))
        return Response({"error": "the token cannot be checked now"}, status.HTTP_503_SERVICE_UNAVAILABLE)
    answer = Response({"error": "a bearer token of a known caller is needed"}, status.HTTP_401_UNAUTHORIZED)
    answer["WWW-Authenticate"] = "Bearer"
    return answer
