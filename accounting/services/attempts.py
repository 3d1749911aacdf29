"""One attempt at a change by a script: done once however often it is sent, or only tried.

It must not know what is changed, nor how an answer is sent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from accounting import ledger
from accounting.models import IdempotencyKey
from accounting.services import errors
from hami_platform.domain.sentences import phrase


@dataclass(frozen=True, slots=True)
class Once:
    """A change that its sender named. asked: all that makes it this change and no other."""

    user_id: int
    key: str
    asked: Any

    @property
    def hash(self) -> str:
        """Of what was asked."""
        return hashlib.sha256(json.dumps(self.asked, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the sender is told. kept: what a repeat is told instead, where the first answer holds a secret."""

    status: int
    body: Any
    kept: Any = None
    repeated: bool = False


class _Undone(Exception):
    """Takes back what was only tried."""

    def __init__(self, answer: Answer) -> None:
        super().__init__("only tried")
        self.answer = answer


def attempt(
    act: Callable[[], Answer], *, cause: str, actor: str, dry_run: bool = False, once: Once | None = None
) -> Answer:
    """Run `act` as one ledger transaction. dry_run: take it back, and tell what it would have answered.

    once: a repeat is given the first answer, and changes nothing. Raises Outdated where the name was used for another
    change, and whatever `act` raises; then nothing is kept.
    """
    try:
        with ledger.transaction(cause=cause, actor=actor):
            found = _first_answer(once) or _acted(act, once)
            if dry_run:
                raise _Undone(found)
    except _Undone as undone:
        return undone.answer
    return found


def _acted(act: Callable[[], Answer], once: Once | None) -> Answer:
    found = act()
    if once is not None:
        body = found.body if found.kept is None else found.kept
        IdempotencyKey.objects.create(
            user_id=once.user_id, key=once.key, request_hash=once.hash, status=found.status, body=body
        )
    return found


def _first_answer(once: Once | None) -> Answer | None:
    """Under the Clock: of two that are sent at once, the second waits for the first."""
    if once is None:
        return None
    row = IdempotencyKey.objects.filter(user=once.user_id, key=once.key).first()
    if row is None:
        return None
    if row.request_hash != once.hash:
        raise errors.Outdated("Idempotency-Key", phrase("was used for another change: take a new one"))
    return Answer(row.status, row.body, repeated=True)
