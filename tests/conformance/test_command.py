"""The command: what it prints, how it ends, and that it never touches an installation."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from tests.conformance import command

DEVICES: dict[str, Any] = {"nvidia": {}}
OTHER = [{"op": "quotaFit", "namespace": "n", "vendor": "AMD", "mem": 1, "cores": 0, "factor": 0}]


def written(folder: pathlib.Path, *vectors: dict[str, Any]) -> pathlib.Path:
    """A file of vectors beside the configuration that they name by default."""
    (folder / "configs").mkdir()
    (folder / "configs" / "chart.json").write_text(json.dumps(DEVICES))
    file = folder / "made.json"
    file.write_text(json.dumps({"area": "made", "count": len(vectors), "vectors": vectors}))
    return file


def test_each_failure_is_one_line_with_expected_and_got(tmp_path: pathlib.Path) -> None:
    wrong = command.vector(id="made-2", expect={"steps": [{"requests": [{}]}]})
    other = command.vector(id="made-3", new=OTHER)
    found = command.conformance(written(tmp_path, command.vector(), wrong, other))
    assert found.returncode == 1
    told = command.lines(found)
    assert told[0].startswith("FAILED made-2 made here: step 0 requests[0].NVIDIA: expected (absent), got {'nums': 1")
    assert told[1] == "SKIPPED made-3 vendor AMD is not configured"
    assert told[-1] == "1 passed, 1 failed"


def test_a_marked_vector_without_a_decision_is_neither_passed_nor_failed(tmp_path: pathlib.Path) -> None:
    marked = command.vector(fault="K99", expect={"steps": [{"requests": [{}]}]})
    found = command.conformance(written(tmp_path, marked))
    assert found.returncode == 0
    assert command.lines(found)[0].startswith("UNDECIDED made-1 made here [K99]: ")
    assert command.lines(found)[-1] == "0 passed, 0 failed"


def test_a_decided_answer_is_the_only_one_that_passes(tmp_path: pathlib.Path) -> None:
    file = written(tmp_path, command.vector())
    decided = tmp_path / "decided.json"
    answer = {"fault": "K99", "why": "because", "steps": {"0": {"requests": [{}]}}}
    decided.write_text(json.dumps({"vectors": {"made-1": answer}}))
    assert command.lines(command.conformance(file, "--decided", decided))[-1] == "0 passed, 1 failed"


def test_a_file_that_cannot_be_read_is_named(tmp_path: pathlib.Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"vectors": [{"id": "x"}]}')
    for path in (broken, tmp_path / "nowhere.json"):
        found = command.conformance(path)
        assert found.returncode == 2
        assert str(path) in found.stderr


def test_a_lone_file_uses_the_configurations_kept_here(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "lone.json"
    file.write_text(json.dumps({"vectors": [command.vector(config={"devices": "nv-factor2"})]}))
    told = command.lines(command.conformance(file))
    assert "expected 1000, got 2000" in told[0]
    unknown = tmp_path / "unknown.json"
    unknown.write_text(json.dumps({"vectors": [command.vector(config={"devices": "none-such"})]}))
    assert f"{unknown}: there is no configs/none-such.json" in command.conformance(unknown).stderr


def test_neither_the_configured_database_nor_a_cluster_is_touched(tmp_path: pathlib.Path) -> None:
    state = tmp_path / "state"
    found = command.conformance(
        command.GOLDEN / "bind.json", "--only", "bind-001",
        HAMI_DATABASE_URL="postgresql://nobody:x@127.0.0.1:1/nothing", HAMI_STATE_DIR=str(state),
        HAMI_KUBECONFIG=str(tmp_path / "none"), HAMI_SECRET_KEY="x",
    )  # fmt: skip
    assert command.lines(found)[-1] == "1 passed, 0 failed", found.stderr
    assert not list(state.glob("*.sqlite3*"))
