"""A decision taken again as plain data with its sentence: the same for page, REST and command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

from accounting.models import Trace
from accounting.services.decision_changes import Change
from accounting.services.replay import Outcome, Replay, Unknown
from hami_platform.domain.sentences import Sentence, phrase

TEXT_MAX: Final = 400

WHY_UNKNOWN: Final[dict[Unknown, Sentence]] = {
    Unknown.NOTHING: phrase("There was nothing to decide: the pod's node was settled, or something failed before."),
    Unknown.OFF: phrase("What it was decided on was not kept: HAMI_TRACE_INPUTS_MIB is 0."),
    Unknown.BUDGET: phrase(
        "What it was decided on was not kept: one process had kept its part of HAMI_TRACE_INPUTS_MIB in that hour."
    ),
    Unknown.SPELLING: phrase("What it was decided on could not be written down."),
    Unknown.POD: phrase("It was decided on the pod's text alone, which is not kept: it may hold secrets."),
    Unknown.DROPPED: phrase(
        "What it was decided on is no longer kept: it is older than HAMI_TRACE_KEEP_DAYS, or newer decisions took the "
        "room of HAMI_TRACE_INPUTS_MIB."
    ),
    Unknown.FORMAT: phrase("It was kept by another release in a form that this one does not read."),
}
PARTS: Final[dict[str, Sentence]] = {
    "inputs": phrase("the list of what it was decided on"),
    "nodes": phrase("the nodes"),
    "candidates": phrase("the nodes that kube-scheduler offered"),
    "configuration": phrase("the device configuration"),
    "request": phrase("the request"),
    "limits": phrase("the limits"),
    "policy": phrase("the policies"),
}


def told(trace: Trace, found: Replay, tell: Callable[[Sentence], str] = str) -> dict[str, Any]:
    """The decision, what came out now, and what has changed since. tell: the sentence in the reader's language."""
    again, changes = found.again, found.changes
    return {
        "id": trace.pk,
        "pod_uid": trace.pod_uid,
        "namespace": trace.namespace,
        "pod_name": trace.pod_name,
        "verdict": trace.verdict,
        "reason": trace.reason,
        "summary": trace.summary,
        "decided_at": trace.last_at,
        "revision": trace.revision,
        "inputs_hash": trace.inputs_hash,
        "outcome": found.outcome.value,
        "sentence": tell(sentence(found)),
        "unknown": found.unknown.value if found.unknown else "",
        "missing": found.missing,
        "hash_again": found.hash,
        "again": None if again is None else msgspec.to_builtins(again),
        "differences": [
            {"what": one.what, "then": _text(one.then), "again": _text(one.again)} for one in found.differences
        ],
        "nodes": found.nodes,
        "candidates": found.candidates,
        "changes": None if changes is None else [_change(one) for one in changes.found],
        "more_changes": changes is not None and changes.more,
        "revision_now": changes.revision if changes is not None else None,
    }


def sentence(found: Replay) -> Sentence:
    """What came of it."""
    if found.outcome == Outcome.SAME:
        return phrase("The same decision again, from the same inputs.")
    if found.outcome == Outcome.DIFFERENT:
        return phrase("Another decision from the same inputs: the platform's rules have changed since.")
    if found.unknown == Unknown.MISSING:
        return phrase("It cannot be taken again: a piece of %(part)s is lost.", part=PARTS[found.missing])
    return WHY_UNKNOWN[found.unknown or Unknown.NOTHING]


def _change(one: Change) -> dict[str, str]:
    return {
        "part": one.part, "subject": one.subject, "field": one.field, "then": _text(one.then), "now": _text(one.now),
    }  # fmt: skip


def _text(value: Any) -> str:
    """A value in a line: numbers and words as they are, nothing as "", anything else as JSON."""
    if value is None:
        return ""
    plain = msgspec.to_builtins(value)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
