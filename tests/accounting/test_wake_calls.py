"""Waking is one patch for each pod; what the API server refuses concerns that pod alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from accounting.services import wake_calls
from accounting.services.wake import Wake
from hami_platform.kube import errors
from tests.accounting import simulated


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


def test_whatever_the_annotation_said_the_patch_is_a_change(tmp_path: Path) -> None:
    """A text that stays the same changes no resourceVersion, and kube-scheduler sees nothing."""
    with simulated.world(tmp_path) as world:
        for number, said in enumerate(("", "7", "7-abcdef", "garbage", "bind-1", "\u00fc" * 300)):
            name = f"p{number}"
            made = world.pod(name, mem=1000, annotations={"platform.hami.io/retry-at": said})
            one = Wake(made["metadata"]["uid"], "nlp", name, 7, ungate=False, history="123456")
            assert wake_calls.wake_send(world.api, [one]) == 1
            now = world.look(name)["metadata"]
            assert now["annotations"]["platform.hami.io/retry-at"] == "7-123456"
            assert now["resourceVersion"] != made["metadata"]["resourceVersion"]


def test_another_pod_of_the_same_name_is_not_woken(tmp_path: Path) -> None:
    with simulated.world(tmp_path) as world:
        world.pod("p", mem=1000)
        before = world.look("p")
        gone = [Wake("uid of the one before", "nlp", "p", 7, ungate=ungate) for ungate in (False, True)]
        assert wake_calls.wake_send(world.api, gone) == 0
        assert world.look("p") == before
