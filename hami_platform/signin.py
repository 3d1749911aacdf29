"""Who may open an account, and which groups the identity provider puts a person in.

Nobody signs up by hand; whom the configured provider vouches for gets an account. What a person may do is decided by
roles, which a fresh account does not have; roles of groups are how the provider gives them. Knows no app.
"""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.contrib.auth.models import Group
from django.core.exceptions import DisallowedHost, PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext

from hami_platform import env, logs

log = logs.get(__name__)

FRESH = timedelta(minutes=5)
"""How long a sign-in counts as just now; as long as django-allauth takes a second answer for one."""


class LocalAccounts(DefaultAccountAdapter):
    """Local accounts are made by an administrator, never by the visitor."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Nobody signs up."""
        return False

    def is_reauthentication_required(self, *, app: str) -> bool:
        """Whoever changes how she signs in is asked once more; who has nothing to answer with (she came from the
        provider, or by a link) must just have signed in."""
        if not super().is_reauthentication_required(app=app):
            return False
        user = self.request.user
        if self.get_reauthentication_methods(user):
            return True
        if user.last_login is None or timezone.now() - user.last_login > FRESH:
            raise PermissionDenied(gettext("This changes how you sign in: sign out and in again first."))
        return False

    def pre_login(self, request: HttpRequest, user: Any, **details: Any) -> HttpResponse | None:
        """Also before a second factor is asked for, and for whoever comes from the provider: follow her groups."""
        signed = (details.get("signal_kwargs") or {}).get("sociallogin")
        if signed is not None:
            follow_groups(user, signed.account.get_provider_account().get_user_data() or {})
        answer: HttpResponse | None = super().pre_login(request, user, **details)
        return answer


class ProviderAccounts(DefaultSocialAccountAdapter):
    """The identity provider decides who has an account."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Whoever the provider vouches for gets an account, without a role."""
        return True


class SecondFactors(DefaultMFAAdapter):
    """How second factors are called."""

    def generate_authenticator_name(self, user: Any, type: Any) -> str:  # noqa: A002  allauth's own word
        """What a new passkey is called until its owner says otherwise."""
        return gettext("Passkey %(day)s") % {"day": timezone.now().date().isoformat()}

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        """Passkeys belong to the host by whose name the console was opened."""
        found: dict[str, str] = super().get_public_key_credential_rp_entity()
        return found | {"name": "GPU quota platform"}


def passkeys(request: HttpRequest) -> dict[str, str]:
    """For templates: why browsers use no passkey here (`address`, `plain`, or nothing), and for whoever sits at the
    machine itself the address at which they do.

    Source: WebAuthn Level 2, 5.1.2 and 5.4.2: a secure context, and a relying party whose name is a domain.
    """
    try:
        asked = urlsplit(f"//{request.get_host()}")
    except DisallowedHost:  # the page says that something is wrong, and has no sign-in on it
        return {"passkeys_refused": "address", "localhost": ""}
    host, port = asked.hostname or "", f":{asked.port}" if asked.port else ""
    address = _address(host)
    local = ""
    if not request.is_secure() and address is not None and address.is_loopback:
        local = f"http://localhost{port}{request.get_full_path()}"
    if address is not None:
        return {"passkeys_refused": "address", "localhost": local}
    return {"passkeys_refused": "" if request.is_secure() or host == "localhost" else "plain", "localhost": local}


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def follow_groups(user: Any, claims: dict[str, Any]) -> None:
    """Put the person into the groups that the provider names and that exist here, and into no others.

    The provider has the last word on accounts that it signs in: what is missing from the claim is taken away, also when
    the claim itself is missing or of another type. Groups that do not exist here have no roles and are not made.
    """
    claim = env.current().oidc_groups_claim
    named = claims.get(claim)
    names = {one for one in named if isinstance(one, str)} if isinstance(named, list) else set()
    if not isinstance(named, list):
        log.warning("groups_claim_unusable", claim=claim, user=user.get_username(), type=type(named).__name__)
    groups = list(Group.objects.filter(name__in=names))
    before = set(user.groups.values_list("name", flat=True))
    after = {group.name for group in groups}
    if before != after:
        log.info("groups_changed", user=user.get_username(), added=sorted(after - before), gone=sorted(before - after))
        user.groups.set(groups)
