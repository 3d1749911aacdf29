"""Who may open an account: nobody by hand, and those whom the configured identity provider knows.

Knows no app. What a person may do is decided by roles, which a fresh account does not have.
"""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.http import HttpRequest


class LocalAccounts(DefaultAccountAdapter):
    """Local accounts are made by an administrator, never by the visitor."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Nobody signs up."""
        return False


class ProviderAccounts(DefaultSocialAccountAdapter):
    """The identity provider decides who has an account."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Whoever the provider vouches for gets an account, without a role."""
        return True
