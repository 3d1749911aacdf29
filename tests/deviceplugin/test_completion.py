"""Completion is reported until the platform has understood, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deviceplugin import checkpoint, completion
from tests.deviceplugin.web import Web


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    yield server
    server.close()


def record_of(folder: Path, *uids: str, containers: Sequence[str] = ("main",)) -> checkpoint.Checkpoint:
    record = checkpoint.Checkpoint(folder / "agent.json")
    for uid in uids:
        record.add(uid, "nlp", uid, [checkpoint.Given(name, ("GPU-a",)) for name in containers])
    return record


def reporter(url: str, record: checkpoint.Checkpoint) -> completion.Reporter:
    return completion.Reporter("n1", completion.Platform(url, "t0k3n"), record)


def test_each_container_is_reported_once_and_in_order(tmp_path: Path, web: Web) -> None:
    record = record_of(tmp_path, "uid-1", containers=["fetch", "main"])
    reports = reporter(web.url, record)
    assert (reports.step(), reports.step()) == (completion.IDLE_S, completion.IDLE_S)
    assert web.reports == [
        {"uid": "uid-1", "container": name, "node": "n1", "devices": ["GPU-a"]} for name in ("fetch", "main")
    ]
    assert web.paths == ["/api/agent/allocations"] * 2
    assert web.headers[0]["Authorization"] == "Bearer t0k3n"
    assert completion.due(record) == []


def test_a_container_served_later_is_reported_alone(tmp_path: Path, web: Web) -> None:
    record = record_of(tmp_path, "uid-1", containers=["fetch"])
    reports = reporter(web.url, record)
    reports.step()
    record.add("uid-1", "nlp", "uid-1", [checkpoint.Given("main", ("GPU-a",))])
    reports.step()
    assert [report["container"] for report in web.reports] == ["fetch", "main"]


@pytest.mark.parametrize("code", [500, 503, 429, 401, 403])
def test_what_may_pass_is_sent_again_later_and_later(tmp_path: Path, web: Web, code: int) -> None:
    web.codes = [code] * 3
    reports = reporter(web.url, record_of(tmp_path, "uid-1"))
    assert [reports.step() for _ in range(4)] == [1.0, 2.0, 4.0, completion.IDLE_S]
    assert len(web.reports) == 4


@pytest.mark.parametrize("code", [400, 404, 409, 410, 422])
def test_a_verdict_on_the_report_is_final(tmp_path: Path, web: Web, code: int) -> None:
    web.codes = [code]
    record = record_of(tmp_path, "uid-1", "uid-2")
    reporter(web.url, record).step()
    assert [report["uid"] for report in web.reports] == ["uid-1", "uid-2"]
    assert completion.due(record) == []


def test_the_platform_may_be_away_and_the_agent_restarted(tmp_path: Path, web: Web) -> None:
    record = record_of(tmp_path, "uid-1", "uid-2")
    away = reporter("http://127.0.0.1:9", record)
    waits = [away.step() for _ in range(8)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    reporter(web.url, checkpoint.Checkpoint(tmp_path / "agent.json")).step()
    assert [report["uid"] for report in web.reports] == ["uid-1", "uid-2"]


def test_a_pod_that_is_gone_is_not_reported_any_more(tmp_path: Path, web: Web) -> None:
    record = record_of(tmp_path, "uid-1", "uid-2")
    record.keep({"uid-2"})
    reporter(web.url, record).step()
    assert [report["uid"] for report in web.reports] == ["uid-2"]


def test_a_report_whose_delivery_cannot_be_recorded_is_sent_again(tmp_path: Path, web: Web) -> None:
    record = record_of(tmp_path, "uid-1")
    (tmp_path / "agent.new").mkdir()
    reports = reporter(web.url, record)
    assert reports.step() == 1.0
    (tmp_path / "agent.new").rmdir()
    assert reports.step() == completion.IDLE_S
    assert len(web.reports) == 2


def test_the_token_is_in_no_text_of_the_address(tmp_path: Path) -> None:
    assert "t0k3n" not in repr(completion.Platform("http://x", "t0k3n"))
