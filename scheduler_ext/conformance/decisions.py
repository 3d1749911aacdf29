"""Answers of ours that differ knowingly from the recorded ones: of single vectors, and of kinds of steps.

Read from a file (`tests/golden/decided.json`). A rule is for a kind of answer, whatever the vector: it says which
of our answers it is about, and excuses the differences at its paths and no others. Must not know: a cluster.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler_ext.conformance import compare, vectors

EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Decided:
    """Our answer to one vector. fault: the number of fault or decision. steps: index of a step → its whole result."""

    fault: str
    why: str
    steps: Mapping[int, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """Our answer to a kind of step: where `got` is in our result (texts are patterns), `paths` are not compared."""

    fault: str
    why: str
    op: str
    got: Mapping[str, Any]
    paths: Sequence[str]

    def covers(self, step: Mapping[str, Any], got: Any) -> bool:
        """Whether the rule is about this answer."""
        return bool(step.get("op") == self.op) and _contains(got, self.got)


@dataclass(frozen=True, slots=True)
class Decisions:
    """All of them."""

    vectors: Mapping[str, Decided] = field(default_factory=dict)
    rules: Sequence[Rule] = ()

    def excused(
        self,
        steps: Sequence[Mapping[str, Any]],
        got: Sequence[Any],
        found: Sequence[compare.Difference],
    ) -> tuple[list[compare.Difference], str]:
        """(the differences that no rule excuses, the number of the first rule that excused one)."""
        left: list[compare.Difference] = []
        used = ""
        for one in found:
            step, answer = steps[one.step], got[one.step]
            rule = next((rule for rule in self.rules if _excuses(rule, one, step, answer)), None)
            if rule is None:
                left.append(one)
            else:
                used = used or rule.fault
        return left, used


def load(path: pathlib.Path) -> Decisions:
    """The decisions of a file. Raises BadVector that names it, OSError."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        answers = {
            name: Decided(one["fault"], one["why"], {int(index): step for index, step in one["steps"].items()})
            for name, one in content.get("vectors", {}).items()
        }
        rules = [
            Rule(one["fault"], one["why"], one["op"], one["got"], one["paths"]) for one in content.get("rules", ())
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise vectors.BadVector(f"{path}: {type(error).__name__} {error}") from error
    return Decisions(answers, rules)


def _excuses(rule: Rule, one: compare.Difference, step: Mapping[str, Any], got: Any) -> bool:
    return rule.covers(step, got) and (EVERYTHING in rule.paths or one.inside in rule.paths)


def _contains(got: Any, wanted: Any) -> bool:
    """Whether a result has these members; a text is a pattern for the whole text."""
    if isinstance(wanted, Mapping):
        return isinstance(got, Mapping) and all(key in got and _contains(got[key], one) for key, one in wanted.items())
    if isinstance(wanted, str):
        return isinstance(got, str) and re.fullmatch(wanted, got, re.DOTALL) is not None
    return bool(got == wanted)
