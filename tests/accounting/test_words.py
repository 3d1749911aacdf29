"""What services write into rows in English is told in Chinese: every sentence, found in their sources."""

from __future__ import annotations

import ast
import importlib
import pathlib
import re
from collections.abc import Iterator

import pytest
from django.test import Client
from django.utils import translation

from accounting import models
from accounting.selectors import words
from hami_platform.domain import quota

ROOT = pathlib.Path(__file__).parents[2]
WRITERS = {"finding_raise": 9, "finding_close": 9, "Drift": 3, "Difference": 2}
"""Who makes such a text, and which of its arguments that is where it has no name."""
NAMED = {"message", "repair"}
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def stored() -> Iterator[str]:
    """Texts of findings, each value as `v1`."""
    for folder in ("accounting/services", "scheduler_ext"):
        for file in sorted((ROOT / folder).glob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for call in ast.walk(tree):
                writer = ast.unparse(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
                if isinstance(call, ast.Call) and writer in WRITERS:
                    at = WRITERS[writer]
                    for given in (*call.args[at : at + 1], *(one.value for one in call.keywords if one.arg in NAMED)):
                        yield from _texts(given)


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and node.value:
        yield str(node.value)
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(one.value) if isinstance(one, ast.Constant) else "v1" for one in node.values)
    elif isinstance(node, ast.IfExp):
        yield from (*_texts(node.body), *_texts(node.orelse))


STORED = sorted(set(stored()))


def test_the_sources_were_read() -> None:
    assert len(STORED) > 20


@pytest.mark.parametrize("text", STORED)
def test_every_stored_sentence_is_told_in_chinese(text: str) -> None:
    with translation.override("zh-hans"):
        told = words.told(text)
    assert CHINESE.search(told), f"{text!r} is not among the sentences that pages know"


@pytest.mark.parametrize("text", STORED)
def test_every_stored_sentence_is_told_as_it_is_in_english(text: str) -> None:
    with translation.override("en"):
        assert words.told(text) == text


def test_values_come_through_and_inner_words_are_told() -> None:
    excess = quota.Excess("nlp/default", "memory_mib", 40960, 38960, 8192)
    with translation.override("zh-hans"):
        told = words.told(f"exceeding resource quota: {excess.text()}; 2 claims pending creation")
        assert all(part in told for part in ("40960", "8192", "2000", "nlp/default", "2 个"))
        assert not re.search("[a-z]{4,}", told.replace("nlp/default", ""))
        assert words.told("running on n1 in the ledger, on n2 in the cluster").startswith("账本中为运行中")


@pytest.mark.parametrize("text", ["", "train", "hold", "100%", "%(what)s", "a text of somebody's"])
def test_what_nobody_knows_is_told_as_it_is(text: str) -> None:
    with translation.override("en"):
        assert words.told(text) == text


def test_repairs_of_drift_are_told() -> None:
    drift = importlib.import_module("accounting.services.drift")
    assert set(drift.REPAIRS.values()) <= set(words.WORDS)


@pytest.mark.django_db
def test_what_a_service_refuses_over_rest_follows_the_language_that_is_asked_for() -> None:
    client = Client()
    client.force_login(models.User.objects.create_superuser("root"))
    told = {}
    for language in ("en", "zh-hans"):
        answer = client.post(
            "/api/v1/quotas",
            {"namespace": "nlp", "memory_mib": 16 * 2**30, "reason": "more"},
            content_type="application/json",
            HTTP_ACCEPT_LANGUAGE=language,
        )
        assert answer.status_code == 400, answer.content
        (told[language],) = answer.json()["errors"]
    assert {one["field"] for one in told.values()} == {"memory_mib"}
    assert "MiB, not bytes" in told["en"]["message"]
    assert "单位是 MiB" in told["zh-hans"]["message"]
    assert "请写 16384" in told["zh-hans"]["message"]
