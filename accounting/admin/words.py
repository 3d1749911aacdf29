"""Texts of Django's and other apps' admin that their own Chinese lacks: named here, so that ours has them."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_noop

BORROWED: Final = (
    gettext_noop("Model name"),
    gettext_noop("Add link"),
    gettext_noop("Change or view list link"),
    gettext_noop("After you’ve created a user, you’ll be able to edit more user options."),
)
