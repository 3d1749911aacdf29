"""Waking is one patch for each pod; what the API server refuses concerns that pod alone."""

from __future__ import annotations

from typing import Any

import pytest

from accounting.services import wake_calls
from accounting.services.wake import Wake
from hami_platform.kube import errors


class Api:
    """Answers each patch with what the test says, by the pod's name."""

    def __init__(self, **answers: Exception) -> None:
        self.answers = answers
        self.patched: list[str] = []

    def send(self, call: Any, *, timeout_s: float | None = None) -> Any:
        name = call.path.rpartition("/")[2]
        if name in self.answers:
            raise self.answers[name]
        self.patched.append(name)

    def watch(self, call: Any, *, idle_s: float) -> Any:
        raise NotImplementedError("waking watches nothing")


def wakes(*names: str) -> list[Wake]:
    return [Wake(uid=f"uid-{name}", namespace="nlp", name=name, revision=7, ungate=False) for name in names]


def test_a_refused_patch_does_not_keep_the_others_asleep() -> None:
    api = Api(a=errors.refused(403, "Forbidden", "a policy denied it"), b=errors.refused(404, "NotFound", "gone"))
    assert wake_calls.wake_send(api, wakes("a", "b", "c")) == 1
    assert api.patched == ["c"]


def test_an_api_server_that_is_away_is_a_fault_of_all() -> None:
    api = Api(a=errors.Unreachable("connection refused"))
    with pytest.raises(errors.Unreachable):
        wake_calls.wake_send(api, wakes("a", "b"))
