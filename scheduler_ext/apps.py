"""Django's entry for this app; it has no models."""

from __future__ import annotations

from django.apps import AppConfig


class SchedulerExtConfig(AppConfig):
    """Webhook and extender."""

    name = "scheduler_ext"
    label = "scheduler_ext"
    verbose_name = "Webhook and scheduler extender"
