"""A rule excuses its own answers at its own paths, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.conformance import compare
from scheduler_ext.conformance.decisions import Decisions, Rule

RULE = Rule("D3", "both are refused", "requests", {"error": ".*both.*"}, ("*",))
AT = Rule("-", "says so", "http", {"contentType": "application/json"}, ("contentType",))
EXPECTED = {"contentType": "text/plain", "status": 200}


def left(rule: Rule, op: str, expected: Any, got: Any) -> list[str]:
    found = compare.steps([expected], [got])
    return [one.inside for one in Decisions({}, [rule]).excused([{"op": op}], [got], found)[0]]


def test_a_rule_for_everything_excuses_the_whole_step() -> None:
    assert left(RULE, "requests", {"requests": [{}]}, {"error": "not both"}) == []


@pytest.mark.parametrize("op, error", [("requests", "another"), ("filter", "not both")])
def test_another_answer_or_step_is_not_excused(op: str, error: str) -> None:
    assert left(RULE, op, {"requests": [{}]}, {"error": error}) == ["error", "requests"]


def test_only_the_paths_of_a_rule_are_excused() -> None:
    assert left(AT, "http", EXPECTED, {"contentType": "application/json", "status": 500}) == ["status"]
    assert left(AT, "http", EXPECTED, {"contentType": "text/html", "status": 200}) == ["contentType"]
