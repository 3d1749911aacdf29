"""What differs when two people change one quota: what each saw and wrote, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from accounting.models import Quota

COMPARED = (*Quota.LIMITS, "vendor", "model_pattern", "valid_from", "valid_until", "returns_at")


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of the form: as this person saw it, as it is now, and as this person entered it."""

    label: str
    seen: Any
    now: Any
    entered: Any

    @property
    def theirs(self) -> bool:
        """Whether the other person changed it."""
        return bool(self.seen != self.now)

    @property
    def mine(self) -> bool:
        """Whether saving would change it."""
        return bool(self.entered != self.now)


@dataclass(frozen=True, slots=True)
class Conflict:
    """The newer version, who made it, when and why, and the lines that differ anywhere."""

    version: int
    by: str
    at: datetime
    reason: str
    lines: tuple[Line, ...]


def conflict(row: Quota, seen: int, entered: Mapping[str, Any], labels: Mapping[str, str]) -> Conflict | None:
    """None where the quota is gone, or the version that was seen is not in the history any more."""
    history: Any = Quota.history.filter(id=row.pk).order_by("history_id")
    old, now = history.filter(version=seen).last(), Quota.objects.filter(pk=row.pk).first()
    last = history.last()
    if old is None or now is None or last is None:
        return None
    lines = tuple(
        Line(labels[name], getattr(old, name), getattr(now, name), entered.get(name))
        for name in COMPARED
        if name in labels
    )
    person = last.history_user.get_username() if last.history_user else ""
    differing = tuple(line for line in lines if line.theirs or line.mine)
    return Conflict(now.version, person, last.history_date, last.history_change_reason or "", differing)
