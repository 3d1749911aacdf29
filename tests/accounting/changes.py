"""What tests of people's changes share: the change itself, its one Journal row and history row, its refusal."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from accounting import live_view
from accounting.models import (
    Journal,
    Quota,
    User,
)
from accounting.services import (
    errors,
    quotas,
)
from hami_platform.domain.quota import Limits

WHY: dict[str, Any] = {"reason": "asked by the team", "actor": "ada"}
CARD: dict[str, Any] = {"node": "n1", "vendor": "NVIDIA", "uuid": "GPU-n1-0"}


@contextmanager
def one_change(kind: str, history: Any) -> Iterator[None]:
    """The block writes one Journal row of this kind and one history row, and the folded View equals a loaded one."""
    live_view.live().refresh()
    revision, before = live_view.live().now.clock.revision, history.objects.count()
    yield
    changed = Journal.objects.filter(revision__gt=revision)
    assert [(row.kind, row.actor) for row in changed] == [(kind, "ada")]
    assert changed[0].values["reason"] == WHY["reason"]
    assert history.objects.count() == before + 1
    newest = history.objects.latest("history_id")
    assert newest.history_change_reason == WHY["reason"]
    assert newest.history_user_id == User.objects.get(username="ada").pk
    same_view()


def same_view() -> None:
    """Folding the Journal gives what loading the rows gives, field by field."""
    folded = live_view.live().refresh()
    loaded = live_view.live().reload()
    for field in dataclasses.fields(folded):
        assert getattr(folded, field.name) == getattr(loaded, field.name), field.name


@contextmanager
def refused(field: str, says: str = "") -> Iterator[None]:
    """The block raises InvalidInput for the field and changes nothing."""
    before = Journal.objects.count()
    with pytest.raises(errors.InvalidInput, match=says or None) as caught:
        yield
    assert caught.value.field == field
    assert Journal.objects.count() == before


def nlp_quota(**changes: Any) -> Quota:
    """The default quota of nlp: 40 GiB."""
    return quotas.quota_set(**WHY | {"namespace": "nlp", "limits": Limits(memory_mib=40960)} | changes)
