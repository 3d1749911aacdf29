from __future__ import annotations

import pathlib

import pytest

from scripts import messages


def test_translations_are_complete_and_compiled() -> None:
    assert messages.problems() == []


def test_texts_of_python_and_of_indented_templates_are_collected(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "accounting").mkdir()
    (tmp_path / "templates").mkdir()
    (tmp_path / "accounting" / "x.py").write_text("if True:\n    t = _('from code')\n", encoding="utf-8")
    page = "<p>\n      {% load i18n %}\n   {% if a %}'{% translate 'from a page' %}{% endif %}\n</p>"
    (tmp_path / "templates" / "x.html").write_text(page, encoding="utf-8")
    monkeypatch.setattr(messages, "ROOT", tmp_path)
    assert {message.id for message in messages.collected()} == {"", "from code", "from a page"}
