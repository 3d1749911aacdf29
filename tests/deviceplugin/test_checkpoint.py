"""The record of what was handed out survives anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deviceplugin import checkpoint

GIVEN = checkpoint.Given("main", ("GPU-a",))
RECORD = checkpoint.PodRecord("nlp", "train", (GIVEN,))


def test_a_record_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state" / "agent.json"
    checkpoint.Checkpoint(path).add("uid-1", "nlp", "train", [GIVEN])
    again = checkpoint.Checkpoint(path)
    assert again.pods == {"uid-1": RECORD}
    assert again.served("uid-1") == {"main"}
    assert again.served("uid-2") == frozenset()


def test_nothing_is_remembered_that_is_not_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    record = checkpoint.Checkpoint(path)
    path.with_suffix(".new").mkdir()  # the draft cannot be written
    with pytest.raises(checkpoint.CheckpointError, match=r"agent\.json"):
        record.add("uid-1", "nlp", "train", [GIVEN])
    assert record.pods == {}


def test_pods_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    record = checkpoint.Checkpoint(tmp_path / "agent.json")
    record.add("uid-1", "nlp", "train", [GIVEN])
    record.add("uid-2", "nlp", "train", [GIVEN])
    assert set(record.keep({"uid-2", "uid-3"})) == {"uid-1"}
    assert set(checkpoint.Checkpoint(tmp_path / "agent.json").pods) == {"uid-2"}


def test_reported_is_remembered_and_a_gone_pod_is_no_fault(tmp_path: Path) -> None:
    record = checkpoint.Checkpoint(tmp_path / "agent.json")
    record.add("uid-1", "nlp", "train", [GIVEN])
    record.reported("uid-1", "main")
    record.reported("uid-9", "main")
    assert checkpoint.Checkpoint(tmp_path / "agent.json").pods["uid-1"].given[0].reported


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 1}', b'{"version":1,"pods":{"u":7}}', b"\xff"])
def test_an_unreadable_file_is_kept_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "agent.json"
    path.write_bytes(content)
    assert checkpoint.Checkpoint(path).pods == {}
    assert (tmp_path / "agent.unreadable").read_bytes() == content


def test_the_file_is_plain_json(tmp_path: Path) -> None:
    checkpoint.Checkpoint(tmp_path / "agent.json").add("uid-1", "nlp", "train", [GIVEN])
    stored = json.loads((tmp_path / "agent.json").read_text())
    assert stored["pods"]["uid-1"]["given"][0] == {
        "container": "main",
        "devices": ["GPU-a"],
        "mig": [],
        "reported": False,
        "ids": [],
        "instances": [],
    }


def test_a_record_is_held_by_one_agent_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    first = checkpoint.hold(path)
    with pytest.raises(checkpoint.HeldError, match="another agent"):
        checkpoint.hold(path)
    first.close()
    checkpoint.hold(path).close()
