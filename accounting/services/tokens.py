"""Tokens: what scripts and node agents show instead of a password. Only their hash is stored.

It must not know who asks: REST, pages and admin decide for whom a token may be made.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Final

from accounting import ledger
from accounting.models import ApiToken, Role, User
from accounting.services import edits, errors
from hami_platform.domain.sentences import phrase

AGENT: Final = "agent"
"""Scope of a node agent's token: reports only."""

SCOPES: Final = (AGENT, "read", "write")
DAYS_MOST: Final = 366
"""How long a token may live that people make for themselves."""
_ENTRIES_MOST: Final = 50


@dataclass(frozen=True, slots=True)
class Bounds:
    """What narrows a token. Empty: nothing does.

    scopes: of SCOPES. roles: only these of its user's roles count. namespaces: only these are seen. networks: where
    it may be used from, in CIDR notation.
    """

    scopes: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(asdict(self).values())


FREE: Final = Bounds()


def bounds_of(row: ApiToken) -> Bounds:
    """What narrows a stored token."""
    return Bounds(*(tuple(getattr(row, name)) for name in ("scopes", "roles", "namespaces", "networks")))


def token_create(
    *, user: str, name: str = "", bounds: Bounds = FREE, lives_s: int | None = None, actor: str = ""
) -> tuple[ApiToken, str]:
    """A new token of this user, and its text, which is shown once and stored only as a hash. Raises InvalidInput."""
    owner = User.objects.filter(username=user, is_active=True).first()
    if owner is None:
        raise errors.InvalidInput("user", phrase("there is no active user %(user)s", user=user))
    bounds = bounds_checked(bounds)
    if lives_s is not None and not 0 < lives_s < 10**9:
        raise errors.InvalidInput("lives_s", phrase("must be positive, or empty for a token without end"))
    with ledger.transaction(cause="token_create", actor=actor) as entry:
        columns = {name: list(values) for name, values in asdict(bounds).items()}
        expiry = timedelta(seconds=lives_s) if lives_s else None
        row, text = ApiToken.objects.create(owner, expiry=expiry, name=name[:100], **columns)
        told = {name: values for name, values in columns.items() if values or name == "scopes"}
        entry.record("token", row.token_key, user=user, name=name[:100], **told)
    return row, text


def own_token_create(
    *, user: str, name: str, bounds: Bounds, days: int, operates: bool, by: ApiToken | None = None, actor: str = ""
) -> tuple[ApiToken, str]:
    """A token that a person makes: it ends, and gives no more than she has there.

    operates: whether she is an operator, who alone makes agents' tokens. by: the token by which she asks, if she does:
    none that is narrowed, and what it makes does not outlive it. Raises InvalidInput.
    """
    if not 1 <= days <= DAYS_MOST:
        raise errors.InvalidInput("days", phrase("from 1 to %(most)s", most=DAYS_MOST))
    if AGENT in bounds.scopes and not operates:
        raise errors.InvalidInput("scopes", phrase("tokens of agents are made by operators"))
    if by is not None and bounds_of(by):
        raise errors.InvalidInput("", phrase("a token that is narrowed makes no tokens: sign in"))
    if by is not None and by.expiry and by.expiry < ledger.database_time() + timedelta(days=days):
        raise errors.InvalidInput(
            "days", phrase("the token by which you ask ends on %(day)s", day=f"{by.expiry:%Y-%m-%d}")
        )
    return token_create(user=user, name=name, bounds=bounds, lives_s=days * 86_400, actor=actor)


def token_revoke(*, digest: str, reason: str, actor: str = "") -> None:
    """End a token at once. Raises InvalidInput."""
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="token_revoke", actor=actor) as entry:
        row = ApiToken.objects.select_related("user").filter(digest=digest).first()
        if row is None:
            raise errors.InvalidInput("token", phrase("is gone already"))
        entry.record("token", row.token_key, user=row.user.get_username(), deleted=True, reason=reason)
        row.delete()


def bounds_checked(bounds: Bounds) -> Bounds:
    """The bounds without repeats, networks in their usual form. Raises InvalidInput."""
    _refuse_unknown("scopes", bounds.scopes, SCOPES)
    _refuse_unknown("roles", bounds.roles, Role.Name.values)
    return Bounds(
        tuple(dict.fromkeys(bounds.scopes)),
        tuple(dict.fromkeys(bounds.roles)),
        _names(bounds.namespaces),
        tuple(dict.fromkeys(_network(text) for text in _few("networks", bounds.networks))),
    )


def usable_from(row: ApiToken, address: str) -> bool:
    """Whether the token may be used by a connection from this address."""
    if not row.networks:
        return True
    try:
        peer = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(peer, "ipv4_mapped", None)  # how a socket for both families names an IPv4 peer
    return any((mapped or peer) in ipaddress.ip_network(text) for text in row.networks)


def _refuse_unknown(field: str, given: Iterable[str], known: Iterable[str]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise errors.InvalidInput(
            field, phrase("unknown: %(names)s; known are %(known)s", names=", ".join(unknown), known=", ".join(known))
        )


def _few(field: str, given: tuple[str, ...]) -> tuple[str, ...]:
    if len(given) > _ENTRIES_MOST:
        raise errors.InvalidInput(field, phrase("at most %(n)s", n=_ENTRIES_MOST))
    return given


def _names(given: tuple[str, ...]) -> tuple[str, ...]:
    for name in _few("namespaces", given):
        if not name or len(name) > 63:
            raise errors.InvalidInput("namespaces", phrase("%(name)s is no name of a namespace", name=repr(name)))
    return tuple(dict.fromkeys(given))


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text.strip(), strict=False))
    except ValueError as fault:
        raise errors.InvalidInput(
            "networks", phrase("%(name)s is no network, such as 10.0.0.0/8 or 2001:db8::/32", name=repr(text))
        ) from fault
