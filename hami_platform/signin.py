"""Who may open an account, and which groups the identity provider puts a person in.

Nobody signs up by hand; whom the configured provider vouches for gets an account. What a person may do is decided by
roles, which a fresh account does not have; roles of groups are how the provider gives them. Knows no app.
"""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse

from hami_platform import env, logs

log = logs.get(__name__)


class LocalAccounts(DefaultAccountAdapter):
    """Local accounts are made by an administrator, never by the visitor."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Nobody signs up."""
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
