from __future__ import annotations

from hami_platform import celery


def test_tasks_leave_no_results_and_no_late_acknowledgement() -> None:
    assert celery.app.conf.task_ignore_result
    assert not celery.app.conf.task_acks_late


def test_every_tick_expires_within_its_period() -> None:
    for name, entry in celery.app.conf.beat_schedule.items():
        assert 0 < entry["options"]["expires"] <= entry["schedule"], name


def test_every_tick_names_a_task_that_exists() -> None:
    celery.app.loader.import_default_modules()
    assert {entry["task"] for entry in celery.app.conf.beat_schedule.values()} <= set(celery.app.tasks)
