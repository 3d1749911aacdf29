from __future__ import annotations

import json
import logging

import pytest
import structlog

from hami_platform import logs


@pytest.fixture
def captured(capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    return capsys


@pytest.fixture(autouse=True)
def _restore() -> object:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.parametrize(
    "key,value,shown",
    [
        ("uid", "u-1", "u-1"),
        ("internal_token", "abc", "***"),
        ("Authorization", "Bearer abc", "***"),
        ("password", "abc", "***"),
        ("url", "https://api/x?token=abc", "https://api/x"),
        ("path", "/pods?limit=5", "/pods"),
        ("event", "GET /pods?limit=5 took 3 ms", "GET /pods took 3 ms"),
        ("error", "cannot reach postgresql://me:hunter2@db/x", "cannot reach postgresql://***@db/x"),
        ("event", "why? because", "why? because"),
        ("event", 'request path="/login/s3-cr_et" status=200', 'request path="/login/***" status=200'),
        ("path", "/accounts/login/", "/accounts/login/"),
        ("count", 3, 3),
    ],
)
def test_what_a_log_shows(key: str, value: object, shown: object) -> None:
    assert logs.mask(None, "info", {key: value}) == {key: shown}


def test_json_lines_carry_third_party_records_too(captured: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json")
    logs.get("ours").info("bound", uid="u-1")
    logging.getLogger("theirs").warning("lost %s", "https://api/x?token=abc")
    first, second = (json.loads(line) for line in captured.readouterr().err.splitlines())
    assert (first["event"], first["uid"], first["level"]) == ("bound", "u-1", "info")
    assert (second["event"], second["logger"]) == ("lost https://api/x", "theirs")


def test_text_lines_are_key_value_pairs(captured: pytest.CaptureFixture[str]) -> None:
    logs.configure("warning", "text")
    logs.get("ours").info("not shown")
    logs.get("ours").warning("drift", node="n1")
    line = captured.readouterr().err
    assert "level=warning event=drift logger=ours node=n1" in line
    assert "not shown" not in line


@pytest.mark.usefixtures("captured")
def test_a_logger_that_spoke_before_logging_was_configured_again_is_heard() -> None:
    log = logs.get("tests.again")
    logs.configure("info", "text")
    log.info("before")
    logs.configure("info", "text")
    with structlog.testing.capture_logs() as heard:
        log.info("after")
    assert [one["event"] for one in heard] == ["after"]
