"""One-time links that sign a person in, for demonstrations on the own machine. It must not know about requests."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.db.models import QuerySet

from accounting import ledger
from accounting.models import LoginLink, User
from accounting.services import errors
from hami_platform.domain.sentences import phrase

LIVES_S = 600


def login_link_create(*, user: str) -> str:
    """A secret that signs this user in once within ten minutes. Only its hash is stored. Raises InvalidInput."""
    person = User.objects.filter(username=user, is_active=True).first()
    if person is None:
        raise errors.InvalidInput("user", phrase("there is no active user %(user)s", user=user))
    secret = secrets.token_urlsafe(32)
    until = ledger.database_time() + timedelta(seconds=LIVES_S)
    LoginLink.objects.create(user=person, secret_hash=_hashed(secret), expires_at=until)
    return secret


def login_link_known(*, secret: str) -> bool:
    """Whether the secret would sign somebody in now."""
    return _usable(secret).exists()


def login_link_use(*, secret: str) -> User | None:
    """The person whom the secret signs in, at its first use only; None for a used, old or unknown one."""
    if _usable(secret).update(used_at=ledger.database_time()) != 1:
        return None
    link = LoginLink.objects.select_related("user").get(secret_hash=_hashed(secret))
    return link.user if link.user.is_active else None


def _usable(secret: str) -> QuerySet[LoginLink]:
    return LoginLink.objects.filter(secret_hash=_hashed(secret), used_at=None, expires_at__gt=ledger.database_time())


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
