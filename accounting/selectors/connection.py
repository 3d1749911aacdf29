"""What still has to be done until the platform serves a cluster, by what the doctor last saw; and how its looks go.

Must not know: how looks are made, or who may ask for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounting import ledger, stored_sentences
from accounting.models import Examination
from accounting.selectors import pods

GOOD, BAD, ODD, UNKNOWN = "good", "bad", "odd", "unknown"
NOBODY_S: Final = 20
"""An examination that nobody has taken up by then has no worker: it looks for one every few seconds."""
CUT_S: Final = 180
"""One that has not ended by then was cut short."""

NEVER, WAITS, ALONE, RUNS, CUT, DONE = "never", "waits", "alone", "runs", "cut", "done"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do when a cluster is connected. checks: by name, of the doctor. does: what to apply or run."""

    title: str | Promise
    why: str | Promise
    checks: tuple[str, ...]
    does: str = ""


STEPS: Final = (
    Step(
        _("Reach the cluster"),
        _("The worker reads it with its service account; elsewhere with the file that HAMI_KUBECONFIG names."),
        ("API server", "server version", "certificate authority"),
    ),
    Step(
        _("Apply the manifests"),
        _("Accounts, rights, Deployments, the DaemonSet of agents. Copy deploy/example and name your images first."),
        ("rights",),
        "kubectl apply -k my/platform",
    ),
    Step(
        _("Make the tables"),
        _("The migration runs once for each release, before anything else."),
        ("database",),
        "kubectl apply -k my/migrate",
    ),
    Step(
        _("Run watcher, worker and beat"),
        _("The watcher follows the cluster; worker and beat repair what no event told."),
        ("watcher", "reconciliation", "Redis", "Prometheus"),
        "kubectl -n hami-system get pods",
    ),
    Step(
        _("Let nodes register their devices"),
        _("Our agent, or HAMi's device plugin, runs where the label says so; a node appears when it has registered."),
        ("GPU nodes", "register annotations", "formats of registers", "vendors", "device plugins", "node clocks"),
        "kubectl label node NODE gpu=on",
    ),
    Step(
        _("Look at what HAMi left"),
        _("Where HAMi ran: what needs a person before we take over. It writes nothing."),
        ("HAMi beside us", "native quotas", "node locks"),
        "./manage.py import_cluster --dry-run",
    ),
    Step(
        _("Send new pods through the webhook"),
        _("Until then pods with devices pass without a claim, and their nodes take no new ones."),
        ("webhook", "webhook order", "pods past the webhook"),
        "./manage.py webhook_config --service hami-platform-webhook --namespace hami-system | kubectl apply -f -",
    ),
    Step(
        _("Let kube-scheduler ask the extender"),
        _("They run in one pod; pods name that scheduler, which the webhook writes for them."),
        ("scheduler name", "extender"),
        "kubectl -n hami-system get pods -l app.kubernetes.io/component=scheduler",
    ),
)
NAMES: Final[Mapping[str, Promise]] = {
    "API server": _("API server"),
    "server version": _("server version"),
    "certificate authority": _("certificate authority"),
    "rights": _("rights"),
    "database": _("database"),
    "watcher": _("watcher"),
    "reconciliation": _("reconciliation"),
    "Redis": _("Redis"),
    "Prometheus": _("Prometheus"),
    "GPU nodes": _("GPU nodes"),
    "register annotations": _("register annotations"),
    "formats of registers": _("formats of registers"),
    "vendors": _("vendors"),
    "device plugins": _("device plugins"),
    "node clocks": _("node clocks"),
    "HAMi beside us": _("HAMi beside us"),
    "native quotas": _("native quotas"),
    "node locks": _("node locks"),
    "webhook": _("webhook"),
    "webhook order": _("webhook order"),
    "pods past the webhook": _("pods past the webhook"),
    "scheduler name": _("scheduler name"),
    "extender": _("extender"),
}


@dataclass(frozen=True, slots=True)
class Check:
    """One look as it came out."""

    name: str | Promise
    verdict: str
    text: str
    mend: str = ""
    is_command: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """A step with its checks. verdict: the worst of them; empty: nobody has looked yet."""

    step: Step
    verdict: str
    checks: Sequence[Check]


@dataclass(frozen=True, slots=True)
class Looks:
    """state: NEVER, WAITS (to be taken up), ALONE (nobody takes it up), RUNS, CUT (short) or DONE. counts: of each
    verdict."""

    state: str
    row: Examination | None
    steps: Sequence[Told]
    counts: Mapping[str, int]

    @property
    def stamp(self) -> str:
        """Changes with all of it."""
        row = self.row
        return self.state if row is None else f"{self.state}-{row.asked_at.timestamp():.3f}-{row.done}"

    @property
    def connected(self) -> bool:
        """Whether nothing stands in the way any more."""
        return bool(self.counts) and not self.counts.get(BAD)


def looks() -> Looks:
    """How it stands now."""
    row = Examination.objects.filter(cluster=ledger.cluster_id()).first()
    found = {one["name"]: one for one in (row.checks if row is not None else ())}
    steps = [_told(step, found) for step in STEPS]
    verdicts = [one["verdict"] for one in found.values()]
    counts = {one: verdicts.count(one) for one in (GOOD, BAD, ODD, UNKNOWN) if one in verdicts}
    return Looks(NEVER if row is None else _state(row, ledger.database_time()), row, steps, counts)


def _state(row: Examination, now: datetime) -> str:
    if row.began_at is None or row.began_at < row.asked_at:
        return ALONE if (now - row.asked_at).total_seconds() > NOBODY_S else WAITS
    if row.ended_at is not None:
        return DONE
    return CUT if (now - row.began_at).total_seconds() > CUT_S else RUNS


def _told(step: Step, found: Mapping[str, Any]) -> Told:
    checks = [_check(found[name]) for name in step.checks if name in found]
    return Told(step, worst(one.verdict for one in checks) if checks else "", checks)


def _check(one: Mapping[str, Any]) -> Check:
    said, advice = (stored_sentences.told(one[name], gettext, pods.grouped) for name in ("said", "advice"))
    return Check(NAMES.get(one["name"], one["name"]), one["verdict"], said, advice, isinstance(one["advice"], str))


def worst(verdicts: Iterable[str]) -> str:
    """Of several."""
    found = set(verdicts)
    return next((one for one in (BAD, ODD, UNKNOWN) if one in found), GOOD)
