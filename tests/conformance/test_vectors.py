"""Every recorded vector of NVIDIA's passes: with HAMi's answer, or with ours where that is decided.

| files | what they are about |
|---|---|
| accounting, filter-*, quota | what is held, and where pods go |
| bind, http, webhook-nvidia, requests-nvidia | the listeners |
| codec-*, health, register | what nodes and pods say |
"""

from __future__ import annotations

import json

import pytest

from tests.conformance import command

GROUPS = {
    "random": ("filter-random",),
    "nvidia": ("filter-nvidia",),
    "sequences": ("accounting", "filter-sequence", "filter-simulate", "filter-quota", "quota"),
    "edges": ("bind", "codec-node", "codec-other", "codec-pod", "health", "http", "register", "requests-nvidia",
              "webhook-nvidia"),
}  # fmt: skip


@pytest.mark.timeout(300)  # hundreds of vectors, each on a database of its own
@pytest.mark.parametrize("group", GROUPS)
def test_recorded_vectors_pass_or_are_decided(group: str) -> None:
    files = [command.GOLDEN / f"{name}.json" for name in GROUPS[group]]
    found = command.conformance(*files)
    told = command.lines(found)
    assert [line for line in told if line.startswith(("FAILED", "UNDECIDED"))] == []
    assert found.returncode == 0, found.stderr
    skipped = sum(line.startswith("SKIPPED") for line in told)
    total = sum(len(json.loads(file.read_text())["vectors"]) for file in files)
    assert told[-1] == f"{total - skipped} passed, 0 failed"
    assert all("is not configured" in line for line in told if line.startswith("SKIPPED"))


def test_every_file_is_in_one_group() -> None:
    names = sorted(name for group in GROUPS.values() for name in group)
    assert names == sorted(file.stem for file in command.GOLDEN.glob("*.json"))


def test_every_decided_answer_has_a_vector_and_a_reason() -> None:
    decided = json.loads((command.ROOT / "tests" / "golden" / "decided.json").read_text())
    folders = (command.GOLDEN, command.GOLDEN.parent / "vendors")
    files = [file for folder in folders for file in folder.glob("*.json")]
    known = {vector["id"]: vector for file in files for vector in json.loads(file.read_text()).get("vectors", ())}
    assert set(decided["vectors"]) <= set(known)
    for name, one in decided["vectors"].items():
        assert one["why"], name
        assert one["fault"], name
        assert all(int(index) < len(known[name]["new"]) for index in one["steps"])
    assert all(rule["why"] and rule["paths"] for rule in decided["rules"])
