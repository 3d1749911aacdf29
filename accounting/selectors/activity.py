"""The Journal as people read it: what changed, by whom, why; and the life of one pod."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model, Q, QuerySet

from accounting import ledger, models
from accounting.models import Finding, Journal, Pod
from accounting.selectors import words
from accounting.selectors.access import Reach

PAGE = 50
EMPTY: tuple[Any, ...] = ("", {}, [])
PIECE = 1000
HIDDEN = frozenset({"uid", "namespace", "name", "reason", "claim", "subject", "version", "in_force"})
COLUMNS_OF: dict[str, type[Model]] = {
    "budget": models.Budget,
    "device": models.Device,
    "hold": models.Hold,
    "lock": models.NodeLock,
    "namespace": models.Namespace,
    "node": models.Node,
    "pod": models.Pod,
    "price": models.Price,
    "quota": models.Quota,
    "tenant": models.Tenant,
}
"""Whose columns the values of a kind of change are."""

PEOPLE = ("quota", "budget", "namespace", "tenant", "device", "hold", "price", "role", "token")
"""Kinds that people change."""

OPERATIONS = ("node", "device", "hold", "lock", "clock", "price")
"""Kinds that concern the cluster rather than a namespace; whoever has any role may read them."""

NAMES_PODS = frozenset({"accounting_unknown", "value", "holder", "freed_by"})
"""What of them names a pod: why a node is not believed; whose its lock is."""


@dataclass(frozen=True, slots=True)
class Change:
    """One Journal row in words."""

    row: Journal
    subject: str
    what: str
    reason: str
    path: tuple[str, str] = ("", "")

    @property
    def detail(self) -> str:
        """What changed, without the state, which a timeline shows by itself."""
        return _told(self.row, HIDDEN | {"state"})


def activity(reach: Reach, *, kind: str = "", key: str = "", before: int | None = None) -> list[Change]:
    """Newest first, PAGE rows at most, those before a revision if one is given. kind "people": what persons changed."""
    rows = _rows(kind, key)
    if before is not None:
        rows = rows.filter(revision__lt=before)
    if reach.everything:
        return [change(row) for row in rows[:PAGE]]
    return [change(row) for row in within(rows[: PAGE * 20], reach)][:PAGE]


def all_of(reach: Reach, *, kind: str = "", key: str = "") -> Iterator[Change]:
    """Every change, newest first, read piece by piece, so that no read holds the database for long."""
    rows = _rows(kind, key)
    piece = list(rows[:PIECE])
    while piece:
        yield from (change(row) for row in within(piece, reach))
        last = piece[-1]
        piece = list(rows.filter(Q(revision__lt=last.revision) | Q(revision=last.revision, seq__gt=last.seq))[:PIECE])


def _rows(kind: str, key: str) -> QuerySet[Journal]:
    rows = Journal.objects.filter(cluster=ledger.cluster_id()).order_by("-revision", "seq")
    if kind == "people":
        rows = rows.filter(kind__in=PEOPLE).exclude(actor="")
    elif kind:
        rows = rows.filter(kind=kind)
    return rows.filter(key=key) if key else rows


def timeline(pod: Pod) -> list[Change]:
    """The life of one pod, oldest first."""
    rows = Journal.objects.filter(cluster=pod.cluster_id, kind="pod", key=str(pod.pk)).order_by("revision", "seq")
    return [change(row) for row in rows[:200]]


def open_findings(limit: int = 50) -> list[Finding]:
    """Drift that nobody has repaired, newest first."""
    return list(Finding.objects.filter(cluster=ledger.cluster_id(), repaired_at=None)[:limit])


def change(row: Journal) -> Change:
    """The row in words."""
    values = row.values
    name = str(values.get("subject") or row.key)
    if row.kind == "pod" and "namespace" in values:
        name = f"{values['namespace']}/{values.get('name') or 'not created yet'}"
    return Change(row, name, _told(row, HIDDEN), str(values.get("reason", "")), _path(row))


def within(rows: Iterable[Journal], reach: Reach) -> Iterator[Journal]:
    """The rows that may be read, without what they tell of namespaces out of reach."""
    for row in rows:
        if may_read(row, reach):
            if not reach.everything and row.kind in OPERATIONS:
                row.values = {key: value for key, value in row.values.items() if key not in NAMES_PODS}
            yield row


def may_read(row: Journal, reach: Reach) -> bool:
    """Whether this change lies within the reach. Tenants, quotas and roles are for those who see everything."""
    if reach.everything or row.kind in OPERATIONS:
        return True
    namespace = row.key if row.kind == "namespace" else row.values.get("namespace")
    return bool(namespace) and reach.sees(namespace)


def _path(row: Journal) -> tuple[str, str]:
    """(kind of page, key) that shows the subject; empty where there is none."""
    if row.kind == "pod" and (row.values.get("uid") or row.values.get("claim")):
        return "pod", row.values.get("uid") or row.values["claim"]
    if row.kind == "namespace":
        return "namespace", row.key
    if row.kind == "device":
        return "device", row.key.rsplit("/", 1)[-1]
    return ("node", row.key) if row.kind in ("node", "lock") else ("", "")


def _told(row: Journal, hidden: Container[str]) -> str:
    """Names and new values, in the reader's language."""
    shown = ((key, value) for key, value in row.values.items() if key not in hidden and value not in EMPTY)
    return " · ".join(f"{_name(row, key)} {_text(value)}" for key, value in shown)


def _name(row: Journal, key: str) -> str:
    """What the value is called: the column's name where it is one of a model's."""
    model = COLUMNS_OF.get(row.kind)
    try:
        named = model._meta.get_field(key) if model is not None else None
    except FieldDoesNotExist:
        named = None
    return str(getattr(named, "verbose_name", "")) or words.told(key.replace("_", " "))


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return words.told({True: "yes", False: "no", None: "none"}[value])
    return words.told(str(value))
