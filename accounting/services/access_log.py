"""Who came in, who was kept out, and who was refused a change. Kept for auditors, outside the ledger.

Repeats within an hour are one row that counts up, so that neither a script nor an attacker fills the table. A record
that cannot be written is logged and does not stop the request. Must not know: pages, REST.
"""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any

from django.db import Error, models, transaction

from accounting import ledger
from accounting.models import AccessRecord
from hami_platform import logs

log = logs.get(__name__)

_recent_tokens: dict[str, datetime] = {}
_lock = threading.Lock()
MOST_TOKENS = 10_000


def record(kind: AccessRecord.Kind, *, who: str, how: str = "", what: str = "", address: str = "") -> None:
    """Keep that it happened now.

    how: password, provider, or a token's name. what: method and path of a refused change.
    """
    columns = {"who": _short(who, 150), "how": _short(how, 100), "what": _short(what, 300)}
    address = _short(address, 64)
    try:
        with transaction.atomic():
            now = ledger.database_time()
            hour = now.replace(minute=0, second=0, microsecond=0)
            row, made = AccessRecord.objects.get_or_create(
                cluster_id=ledger.cluster_id(), kind=kind, hour=hour, **columns,
                defaults={"at": now, "address": address},
            )  # fmt: skip
            if not made:
                AccessRecord.objects.filter(pk=row.pk).update(at=now, address=address, times=models.F("times") + 1)
    except Error as fault:
        log.error("access_not_recorded", kind=kind.value, who=who, why=str(fault))


def token_used(*, digest: str, name: str, who: str, address: str) -> None:
    """Keep that a token was used: once an hour for each process, since scripts call all the time."""
    hour = ledger_hour()
    with _lock:
        if _recent_tokens.get(digest) == hour:
            return
        if len(_recent_tokens) >= MOST_TOKENS:
            _recent_tokens.clear()
        _recent_tokens[digest] = hour
    record(AccessRecord.Kind.TOKEN, who=who, how=name or digest[:8], address=address)


def ledger_hour() -> datetime:
    """The hour that now belongs to, by this process's clock: it only decides how often the database is asked."""
    return datetime.now().astimezone().replace(minute=0, second=0, microsecond=0)


def signed_in(sender: Any, request: Any, user: Any, **details: Any) -> None:
    """For Django's signal."""
    signed = details.get("sociallogin")
    backend = str(getattr(user, "backend", "")).rpartition(".")[2]
    how = f"provider {signed.account.provider}" if signed is not None else backend or "password"
    how = _with_factor(request, how)
    record(AccessRecord.Kind.SIGNED_IN, who=user.get_username(), how=how, address=_address(request))


def _with_factor(request: Any, how: str) -> str:
    """Also by which second factor, as django-allauth keeps it in the session; a passkey may have been the only one."""
    session = getattr(request, "session", None) or {}
    for one in session.get("account_authentication_methods", ()):
        if one.get("method") == "mfa":
            kind = "passkey" if one.get("type") == "webauthn" else str(one.get("type"))
            return kind if one.get("passwordless") else f"{how} and {kind}"
    return how


def signed_out(sender: Any, request: Any, user: Any, **_: Any) -> None:
    """For Django's signal."""
    if user is not None:
        record(AccessRecord.Kind.SIGNED_OUT, who=user.get_username(), address=_address(request))


def kept_out(sender: Any, credentials: dict[str, Any], request: Any = None, **_: Any) -> None:
    """For Django's signal: wrong name or password."""
    who = str(credentials.get("username") or credentials.get("login") or "")
    record(AccessRecord.Kind.KEPT_OUT, who=who, how="password", address=_address(request))


def _short(text: str, most: int) -> str:
    """What a column takes of it: PostgreSQL takes no NUL."""
    return text.replace("\0", "")[:most]


def _address(request: Any) -> str:
    return str(request.META.get("REMOTE_ADDR", "")) if request is not None else ""
