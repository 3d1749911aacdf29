"""Texts in the sources that pass no translator: in templates, in forms, in messages, in refusals.

What only a rendered page shows, `tests/accounting/test_every_text.py` finds; this reads the rest.
"""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

import pytest

from tests.accounting import test_every_text

ROOT = pathlib.Path(__file__).parents[1]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
SOURCES = [
    file
    for folder in ("admin", "pages", "models", "services", "selectors")
    for file in sorted((ROOT / "accounting" / folder).rglob("*.py"))
]
TOLD = re.compile(
    r"{%\s*comment.*?endcomment\s*%}|{%\s*blocktranslate.*?endblocktranslate\s*%}|{#.*?#}|{%.*?%}|{{.*?}}"
    r"|<(script|style|code|pre|kbd)\b.*?</\1>|<!--.*?-->",
    re.DOTALL,
)
ATTRIBUTES = re.compile(r'\b(?:title|aria-label|placeholder|alt|value)="([^"]*)"')
TAG = re.compile(r"<[^>]*>", re.DOTALL)
SHOWN = {"label", "help_text", "verbose_name", "verbose_name_plural", "description", "short_description", "title"}
"""Arguments whose text people read."""
SAYS = {
    "InvalidInput": 1,
    "Outdated": 1,
    "BadWindow": 1,
    "PermissionDenied": 0,
    "ValidationError": 0,
    "message_user": 1,
}
"""Who tells people something, and which argument it is."""
MESSAGES = {"success", "error", "warning", "info"}
OF_CODE = ("accounting/services/notices.py", "accounting/services/doctor")
"""Read by other systems, or by whoever runs a command: English in any language."""


def _words(text: str) -> set[str]:
    found = test_every_text.WORD.findall(
        test_every_text.CODE.sub(" ", text.replace("&rsaquo;", "").replace("&amp;", ""))
    )
    return set(found) - test_every_text.NAMES


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_text_of_a_template_is_translated(file: pathlib.Path) -> None:
    plain = TOLD.sub(" ", file.read_text(encoding="utf-8"))
    plain = re.sub(r'<(\w+)[^>]*\blang="en"[^>]*>[^<]*</\1>', " ", plain)
    shown = [*ATTRIBUTES.findall(plain), *TAG.sub("\n", plain).splitlines()]
    assert [text.strip() for text in shown if _words(text)] == []


def bare(file: pathlib.Path) -> Iterator[str]:
    """Texts of a source that people read and that go through no gettext."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        for argument in node.keywords:
            if argument.arg in SHOWN and _is_text(argument.value):
                yield f"{node.lineno}: {argument.arg}={ast.unparse(argument.value)}"
        name = ast.unparse(node.func).rpartition(".")[2]
        at = SAYS.get(name, 1 if name in MESSAGES and "messages." in ast.unparse(node.func) else None)
        if at is not None and len(node.args) > at and _is_text(node.args[at]):
            yield f"{node.lineno}: {name}({ast.unparse(node.args[at])})"


def _is_text(node: ast.expr) -> bool:
    """A text of words, or one that is put together."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and bool(_words(node.value)) and node.value not in test_every_text.DATA
    return isinstance(node, ast.JoinedStr) and any(_is_text(one) for one in node.values)


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_text_that_people_read_goes_through_gettext(file: pathlib.Path) -> None:
    if not str(file.relative_to(ROOT)).startswith(OF_CODE):
        assert list(bare(file)) == []
