"""The accounting app. The Celery app is imported when Django is ready, so that `shared_task` finds it."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core.management import call_command
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class AccountingConfig(AppConfig):
    """Ledger, quotas, inventory, and the pages and admin over them."""

    name = "accounting"
    verbose_name = _("Accounting")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from accounting import meters  # nor models
        from accounting.meters import looks
        from hami_platform import celery  # noqa: F401  (Celery must not load before the app registry)

        meters.register()
        looks.register()
        post_migrate.connect(_cache_table, sender=self)
        _keep_sign_ins()


def _cache_table(using: str, **_options: Any) -> None:
    """Where the cache is the database, sign-in limits and sessions need its table as much as ours."""
    call_command("createcachetable", database=using, verbosity=0)


def _keep_sign_ins() -> None:
    from django.contrib.auth import signals

    from accounting.services import access_log  # its models are ready only now

    signals.user_logged_in.connect(access_log.signed_in)
    signals.user_logged_out.connect(access_log.signed_out)
    signals.user_login_failed.connect(access_log.kept_out)
