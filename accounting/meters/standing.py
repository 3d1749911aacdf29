"""How the ledger stands: what this process knows of it, who is in office, locks, and what was found to differ.

Ages count in the database's time. Everything here is read, by one small query each.
"""

from __future__ import annotations

import functools
import pathlib
import platform
import tomllib
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Count, Q

from accounting import ledger
from accounting.models import Finding, NodeLock, ProcessLease
from accounting.services import office
from hami_platform import env, metrics
from hami_platform.domain.view import View

PROJECT = pathlib.Path(__file__).parents[2] / "pyproject.toml"


def of_process() -> Iterator[str]:
    """What needs no database, so that it shows when there is none."""
    open_ = bool(ledger.breaker.why)
    yield from metrics.family(
        "hami_platform_breaker_open", "1 while the ledger is taken for unavailable.", [("", +open_)]
    )
    epoch = office.OFFICE.epoch
    text = "1 in the watcher that is in office."
    yield from metrics.family("hami_platform_leader", text, [("", +(epoch is not None))])
    if epoch is not None:
        yield from metrics.family("hami_platform_leader_epoch", "Epoch of its term of office.", [("", epoch)])
    yield from metrics.family("hami_build_info", "What runs here.", [(_build(), 1)])


def revision(view: View) -> Iterator[str]:
    """Which history of the ledger, and how far this process has followed it."""
    clock = view.clock
    text = "Revision of the ledger that these figures are of."
    yield from metrics.family("hami_platform_ledger_revision", text, [("", clock.revision)])
    text = "The unbroken history that the ledger belongs to; another one after a restore."
    of = metrics.labels(incarnation=clock.incarnation)
    yield from metrics.family("hami_platform_ledger_incarnation_info", text, [(of, 1)])
    text = "1 when this history was compared in full with the API server."
    yield from metrics.family("hami_platform_ledger_compared", text, [("", +view.ready)])


def locks(_view: View) -> Iterator[str]:
    """Nodes that are locked for an allocation. Twice the time-out is an alarm: somebody does not let go (H51)."""
    now, timeout = ledger.database_time(), timedelta(seconds=env.current().node_lock_timeout_s)
    rows = NodeLock.objects.filter(cluster=ledger.cluster_id()).values_list("mode", "first_seen_at").order_by()
    ages = [(mode, now - since) for mode, since in rows]
    number = Counter(mode for mode, _ in ages)
    samples = [(metrics.labels(mode=mode), number[mode]) for mode in ("annotation", "row")]
    yield from metrics.family("hami_platform_node_locks", "Nodes that are locked now.", samples)
    overdue = sum(age > 2 * timeout for _, age in ages)
    text = "Locks older than twice the time-out."
    yield from metrics.family("hami_platform_node_locks_overdue", text, [("", overdue)])
    oldest_s = max((age.total_seconds() for _, age in ages), default=0.0)
    text = "Age of the oldest lock."
    yield from metrics.family("hami_platform_node_lock_oldest_seconds", text, [("", max(0.0, oldest_s))])


def leases(_view: View) -> Iterator[str]:
    """The watcher's office and the periodic jobs, whoever does them."""
    now = ledger.database_time()
    rows = list(ProcessLease.objects.filter(cluster=ledger.cluster_id()))
    names = [(metrics.labels(job=row.name), row) for row in rows]
    text = "How often a job has changed hands."
    yield from metrics.family("hami_platform_lease_epoch", text, [(of, row.epoch) for of, row in names])
    held = [(of, +(row.until is not None and row.until > now)) for of, row in names]
    yield from metrics.family("hami_platform_lease_held", "1 while somebody does the job.", held)
    done = [(of, (now - row.succeeded_at).total_seconds()) for of, row in names if row.succeeded_at is not None]
    text = "Since the job was last done without a fault."
    yield from metrics.family("hami_platform_job_success_age_seconds", text, [(of, max(0.0, s)) for of, s in done])


def findings(_view: View) -> Iterator[str]:
    """What was found to differ from the cluster, by kind: open ones, and those repaired that are still kept."""
    kinds = Finding.objects.filter(cluster=ledger.cluster_id()).values("kind").order_by("kind")
    counts = list(kinds.annotate(open=Count("pk", filter=Q(repaired_at=None)), all=Count("pk")))
    open_ = [(metrics.labels(kind=one["kind"]), one["open"]) for one in counts]
    yield from metrics.family("hami_platform_findings_open", "Differences that are not repaired.", open_)
    repaired = [(metrics.labels(kind=one["kind"]), one["all"] - one["open"]) for one in counts]
    yield from metrics.family("hami_platform_findings_repaired", "Repaired differences that are kept.", repaired)


def _build() -> str:
    """HAMi's labels; those of Go say what stands in Go's place."""
    return metrics.labels(
        version=_version(), revision="", build_date="", go_version="", compiler=platform.python_implementation(),
        platform=f"{platform.system().lower()}/{platform.machine()}",
    )  # fmt: skip


@functools.cache
def _version() -> str:
    """The platform runs from its tree and is no installed package."""
    try:
        return str(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"])
    except (OSError, KeyError):
        return ""
