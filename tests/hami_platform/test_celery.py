from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from celery import Celery

from accounting import tasks
from hami_platform import celery

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def schedule() -> celery.Schedule:
    return celery.Schedule(app=celery.app, lazy=False)


def test_tasks_leave_no_results_and_no_late_acknowledgement() -> None:
    assert celery.app.conf.task_ignore_result
    assert not celery.app.conf.task_acks_late
    assert celery.app.conf.worker_prefetch_multiplier == 1


def test_there_are_ticks(schedule: celery.Schedule) -> None:
    assert {"pods", "nodes", "locks"} <= set(schedule.schedule)


def test_every_tick_expires_soon_but_not_between_two_machines_whose_clocks_differ(schedule: celery.Schedule) -> None:
    for name, entry in schedule.schedule.items():
        over_s = entry.options["expires"] - entry.schedule.run_every.total_seconds()  # type: ignore[index, union-attr]
        assert over_s == tasks.SKEW_S, name


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_clock_that_is_stepped_stops_no_tick(minutes: int) -> None:
    alone = Celery(broker="memory://", set_as_current=False)
    now = datetime.now(UTC)
    with time_machine.travel(now, tick=False) as clock:
        schedule = celery.Schedule(app=alone, lazy=False)
        _tick_all(schedule)
        clock.move_to(now + timedelta(minutes=minutes))
        _tick_all(schedule)
        hourly = 1
        assert schedule._waiting(schedule.producer) >= 2 * len(schedule.schedule) - hourly


def _tick_all(schedule: celery.Schedule) -> None:
    """Send whatever is due."""
    while schedule.tick() == 0:
        pass


def test_every_tick_names_a_task_that_exists(schedule: celery.Schedule) -> None:
    celery.app.loader.import_default_modules()
    assert {entry.task for entry in schedule.schedule.values()} <= set(celery.app.tasks)


def test_after_a_start_every_tick_is_due_at_once(schedule: celery.Schedule) -> None:
    assert all(entry.is_due().is_due for entry in schedule.schedule.values())  # type: ignore[attr-defined]


def test_a_broker_that_is_away_costs_one_line_a_tick(caplog: pytest.LogCaptureFixture) -> None:
    away = Celery(broker="redis://127.0.0.1:1/0", set_as_current=False)
    away.conf.task_publish_retry = False
    away.conf.broker_transport_options = {"max_retries": 0, "socket_connect_timeout": 1}
    schedule = celery.Schedule(app=away, lazy=False)
    schedule.apply_entry(schedule.schedule["due"])
    assert [record.exc_info for record in caplog.records if "tick_not_sent" in record.getMessage()] == [None]


def test_ticks_that_nobody_takes_are_not_heaped_up() -> None:
    alone = Celery(broker="memory://", set_as_current=False)
    schedule = celery.Schedule(app=alone, lazy=False)
    entry = schedule.schedule["due"]
    for _ in range(celery.MOST_WAITING + 50):
        schedule.apply_entry(entry, producer=schedule.producer)
    assert schedule._waiting(schedule.producer) == celery.MOST_WAITING


def test_an_embedded_worker_takes_what_its_beat_sends(tmp_path: pathlib.Path) -> None:
    environ = {**os.environ, "HAMI_STATE_DIR": str(tmp_path), "HAMI_ROLE": "worker", "HAMI_LOG_LEVEL": "debug"}
    environ.pop("HAMI_DATABASE_URL", None)
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environ, check=True)
    command = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "hami_platform.celery", "worker", "-B"]
    with subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr is not None
        lines = []
        for line in worker.stderr:
            lines.append(line)
            if "accounting.tasks.due" in line and "succeeded" in line:
                break
        worker.send_signal(signal.SIGQUIT)
        assert lines[-1].find("succeeded") > 0, "".join(lines)
