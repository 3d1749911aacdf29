"""Every setting of this process with where it comes from, and what the process depends on. Secrets are never shown.

It must not know how that is laid out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.core.cache import cache
from django.db import connection
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from accounting import ledger
from accounting.models import ProcessLease
from accounting.selectors import freshness, usage_report
from hami_platform import env, env_reading
from hami_platform.env_reading import Setting

SUMS_OLD_S: Final = 240
"""Four periods of the hourly sums."""

GROUPS: Final = (
    gettext_noop("Process"),
    gettext_noop("Database and Redis"),
    gettext_noop("Listeners"),
    gettext_noop("Web and sign-in"),
    gettext_noop("Scheduling"),
    gettext_noop("Quota and leases"),
    gettext_noop("Node agent"),
    gettext_noop("Node agent: devices and the kubelet"),
    gettext_noop("Node agent: monitor and limits"),
    gettext_noop("Tests"),
)
"""Of the table of settings, which knows no language; named for translation."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One setting. value: as it is in force; empty for a secret, of which `is_set` says whether there is one. source:
    the variable that sets it; empty: the default holds."""

    setting: Setting
    value: str
    is_set: bool
    source: str


@dataclass(frozen=True, slots=True)
class Dependency:
    """Something that the platform needs. took_ms: of an answer just now; age_s: since it last did well. problem: empty
    where all is well."""

    name: str | Promise
    what: str
    took_ms: float | None = None
    age_s: int | None = None
    problem: str | Promise = ""


def settings_shown(environ: Mapping[str, str] = os.environ) -> list[tuple[str, list[Shown]]]:
    """By group, in the order of the documentation."""
    groups: dict[str, list[Shown]] = {}
    for one in env.TABLE:
        groups.setdefault(one.group, []).append(_shown(one, environ))
    return list(groups.items())


def dependencies() -> list[Dependency]:
    """Database and cache asked now; the API server and the sums by when somebody last did well there."""
    current = env.current()
    broker = "Redis" if current.redis_url else _("folder")
    return [
        _asked(_("Database"), connection.vendor, ledger.database_time),
        _asked(_("Cache"), "Redis" if current.redis_url else connection.vendor, lambda: cache.get("dependencies")),
        _aged(_("API server, compared in full"), current.kubeconfig, freshness.RECONCILE, freshness.OLD_S),
        _aged(_("Hourly sums, by the worker"), str(broker), usage_report.ROLLUP, SUMS_OLD_S),
    ]


def _shown(setting: Setting, environ: Mapping[str, str]) -> Shown:
    value = getattr(env.current(), setting.name)
    source = env_reading.source(setting, environ)
    return Shown(setting, "" if setting.secret else _text(value), bool(value), source)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list, frozenset)):
        return " ".join(str(one) for one in value)
    return "" if value is None else str(value)


def _asked(name: Promise, what: str, ask: Callable[[], object]) -> Dependency:
    began = time.monotonic()
    try:
        ask()
    except Exception as fault:  # noqa: BLE001 - whatever a driver raises is what the page is to tell
        return Dependency(name, what, problem=f"{type(fault).__name__}: {fault}".splitlines()[0])
    return Dependency(name, what, took_ms=(time.monotonic() - began) * 1000)


def _aged(name: Promise, what: str, job: str, old_s: int) -> Dependency:
    lease = ProcessLease.objects.filter(cluster=ledger.cluster_id(), name=job).first()
    if lease is None or lease.succeeded_at is None:
        return Dependency(name, what, problem=_("never"))
    age_s = max(0, round((ledger.database_time() - lease.succeeded_at).total_seconds()))
    return Dependency(name, what, age_s=age_s, problem=_("old") if age_s > old_s else "")
