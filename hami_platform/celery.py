"""The Celery application. The schedule is code: `accounting.tasks.BEAT_SCHEDULE`, read when beat starts."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hami_platform.settings")


class Application(celery.Celery):
    """Celery that reads its schedule from the app that owns the tasks."""

    def on_after_configure_schedule(self) -> None:
        """Add the ticks. Without a tasks module there is nothing to tick."""
        if importlib.util.find_spec("accounting.tasks") is not None:
            tasks = importlib.import_module("accounting.tasks")
            self.conf.beat_schedule = dict(getattr(tasks, "BEAT_SCHEDULE", {}))


app = Application("hami_platform")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@app.on_after_finalize.connect
def _schedule(sender: Application, **_kwargs: Any) -> None:
    sender.on_after_configure_schedule()


@setup_logging.connect
def _keep_our_logging(**_kwargs: Any) -> None:
    """Being connected is enough: Celery then leaves the logging that settings configured."""
