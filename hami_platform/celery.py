"""The Celery application. The schedule is code: `accounting.tasks.BEAT_SCHEDULE`, read when beat starts."""

from __future__ import annotations

import importlib
import os
from typing import Any

import celery
from celery import beat
from celery.signals import beat_init, setup_logging, worker_init

from hami_platform import env, metrics

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hami_platform.settings")

app = celery.Celery("hami_platform")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


class Schedule(beat.Scheduler):
    """The ticks, kept nowhere: after a restart each is due at once, and a tick too many changes nothing.

    Read here and not at import, because the tasks' module imports this one.
    """

    def setup_schedule(self) -> None:
        """Take the ticks from the module that owns the tasks."""
        self.app.conf.beat_schedule = dict(importlib.import_module("accounting.tasks").BEAT_SCHEDULE)
        super().setup_schedule()
        self.merge_inplace(self.app.conf.beat_schedule)


@setup_logging.connect
def _keep_our_logging(**_kwargs: Any) -> None:
    """Being connected is enough: Celery then leaves the logging that settings configured."""


@worker_init.connect
@beat_init.connect
def _show_metrics(**_kwargs: Any) -> None:
    """Neither process has a listener of its own."""
    bind = env.current().metrics_bind
    if bind is not None:
        metrics.serve(bind)
