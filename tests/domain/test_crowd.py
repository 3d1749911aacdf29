"""A node with a line: as many pods as LINE between reservation and allocation, and somebody who has its lock."""

from __future__ import annotations

import pytest

from hami_platform.domain import crowd
from hami_platform.domain.rows import Changes, LockRow, PodRow
from hami_platform.domain.view import View
from tests import builders


def view(states: str, *, locked: bool = True) -> View:
    """Pods in these states on n1: r(eserved), b(inding), R(unning)."""
    words = {"r": "reserved", "b": "binding", "R": "running"}
    request = builders.pod(builders.ask())
    pods = {
        number: PodRow(number, f"uid-{number}", "", "nlp", f"p{number}", words[letter], request, node="n1")
        for number, letter in enumerate(states)
    }
    return View().fold(Changes(pods=pods, locks={"n1": LockRow("n1", "uid-0")} if locked else {}))


@pytest.mark.parametrize(
    "states,locked,passed_over",
    [("brrr", True, True), ("brr", True, False), ("brrRRRR", True, False), ("rrrrr", False, False)],
)
def test_a_line_is_what_waits_behind_a_lock(states: str, locked: bool, passed_over: bool) -> None:
    left = crowd.uncrowded(view(states, locked=locked), ["n1", "n2"])
    assert left == (["n2"] if passed_over else ["n1", "n2"])


def test_without_a_line_the_candidates_are_not_copied() -> None:
    names = ["n1", "n2"]
    assert crowd.uncrowded(view("b"), names) is names
    assert crowd.uncrowded(view("brrr"), other := ["n2"]) is other
