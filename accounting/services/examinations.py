"""The doctor's looks, asked for by a person and run by a worker: one row, so that never more than one waits or runs.

The console has no rights in the cluster; the worker has those that the looks need. Must not know: how it is shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from django.db.models import F, Q

from accounting import ledger, stored_sentences
from accounting.models import Examination
from accounting.services import doctor
from accounting.services.device_config import device_config
from hami_platform.kube import api as ports
from hami_platform.kube import errors

LONGEST_S: Final = 180
"""A run that has not ended by then was cut short, as with the worker that made it."""


def examination_ask(*, actor: str) -> bool:
    """Ask for one. False: one waits to be taken up already, or runs."""
    cluster, now = ledger.cluster_id(), ledger.database_time()
    _row, made = Examination.objects.get_or_create(cluster_id=cluster, defaults={"asked_at": now, "asked_by": actor})
    if made:
        return True
    free = Examination.objects.filter(cluster=cluster, began_at__gte=F("asked_at")).exclude(_running())
    return bool(free.update(asked_at=now, asked_by=actor, problem=""))


def examination_run(api: Callable[[], ports.Api]) -> bool:
    """Make the one that was asked for, if there is one. api: makes the client; it may raise Misconfigured.

    The caller sees to it that one process at a time does this.
    """
    rows = Examination.objects.filter(cluster=ledger.cluster_id())
    begun = rows.filter(Q(began_at=None) | Q(began_at__lt=F("asked_at"))).update(
        began_at=ledger.database_time(), ended_at=None, step="", done=0, total=doctor.LOOKS, problem=""
    )
    if not begun:
        return False

    def told(step: str, done: int) -> None:
        rows.update(step=step[:100], done=done)

    try:
        found = doctor.examine(api(), config=device_config(), now_s=time.time(), told=told)
    except errors.Misconfigured as fault:
        rows.update(ended_at=ledger.database_time(), problem=f"HAMI_KUBECONFIG: {fault}"[:400])
        return True
    now = ledger.database_time()
    rows.update(ended_at=now, checked_at=now, done=doctor.LOOKS, step="", checks=[_kept(one) for one in found])
    return True


def _kept(one: doctor.Check) -> dict[str, Any]:
    """As it is told to scripts, and as sentences that can be told in another language."""
    return one.told() | {"said": stored_sentences.kept(one.said), "advice": stored_sentences.kept(one.advice)}


def _running() -> Q:
    """Those that have not ended and may still."""
    since = ledger.database_time() - timedelta(seconds=LONGEST_S)
    return Q(ended_at=None, began_at__gte=since)
