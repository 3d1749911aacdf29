"""The Celery application. The schedule is code: `accounting.tasks.BEAT_SCHEDULE`, read when beat starts."""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any

import celery
from celery import beat
from celery.signals import beat_init, setup_logging, worker_init, worker_ready

from hami_platform import collector, env, logs, metrics

_log = logs.get(__name__)
MOST_WAITING = 100
"""Two minutes of ticks."""

_CHATTY = ("celery.beat", "celery.worker.strategy", "celery.worker.request", "celery.app.trace")

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
        self._all_due()  # Celery's own new entries wait for one period first

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send one tick that is due; how long until the next one, s.

        Celery goes by times of day. Where the clock is set back, nothing would be due until it has caught up.
        """
        entries: list[Any] = list(self.schedule.values())
        if any(entry.last_run_at > entry.default_now() for entry in entries):
            _log.warning("clock_set_back", then="all ticks are due")
            self._all_due()
            self._heap = None
        return float(super().tick(*args, **kwargs))

    def _all_due(self) -> None:
        entry: Any
        for entry in self.schedule.values():
            entry.last_run_at = entry.default_now() - entry.schedule.run_every

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send one tick. A broker that is away costs one line a tick; the next tick is the retry.

        Where nobody takes them, ticks are not heaped up: a worker would spend its first minutes on throwing them away.
        """
        try:
            if producer is not None and self._waiting(producer) >= MOST_WAITING:
                _log.warning("tick_not_sent", task=entry.name, why="nobody takes what was sent: is a worker running?")
                return
            self.apply_async(entry, producer=producer, advance=False)
        except self._away() as fault:
            _log.warning("tick_not_sent", task=entry.name, why=str(fault).partition("\n")[0])

    def _away(self) -> tuple[type[Exception], ...]:
        """What a broker that is away looks like."""
        connection: Any = self.connection
        return (beat.SchedulingError, *connection.connection_errors, *connection.channel_errors)

    def _waiting(self, producer: Any) -> int:
        """How many messages lie in the queue."""
        declared = producer.channel.queue_declare(queue=self.app.conf.task_default_queue)
        return int(declared.message_count)


@setup_logging.connect
def _keep_our_logging(**_kwargs: Any) -> None:
    """Being connected is enough: Celery then leaves the logging that settings configured.

    A line for each tick that is sent, taken, done or too old would drown everything else, so they are for debugging.
    """
    for name in _CHATTY if env.current().log_level != "debug" else ():
        logging.getLogger(name).setLevel(logging.WARNING)


@worker_init.connect
@beat_init.connect
def _show_metrics(**_kwargs: Any) -> None:
    """Neither process has a listener of its own."""
    bind = env.current().metrics_bind
    if bind is not None:
        metrics.serve(bind)


@worker_ready.connect
def _calm(**_kwargs: Any) -> None:
    """All is imported."""
    collector.calm()
