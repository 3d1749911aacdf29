"""The accounting app. The Celery app is imported when Django is ready, so that `shared_task` finds it."""

from __future__ import annotations

from django.apps import AppConfig


class AccountingConfig(AppConfig):
    """Ledger, quotas, inventory, and the pages and admin over them."""

    name = "accounting"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from accounting import meters  # nor models
        from hami_platform import celery  # noqa: F401  (Celery must not load before the app registry)

        meters.register()
