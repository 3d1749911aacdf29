"""Landmarks of templates: whoever hears a page tells them apart by name."""

from __future__ import annotations

import pathlib
import re

import pytest

TEMPLATES = pathlib.Path(__file__).parents[1] / "templates"
SECTION = re.compile(r'<section[^>]*aria-labelledby="([^"]+)"')
REGION = re.compile(r"""role="region" aria-label="{% translate (['"])(.*?)\1 %}\"""")
HEADING = r"""id="%s"[^>]*>\s*{%% translate (['"])(.*?)\1 %%}\s*</h"""


@pytest.mark.parametrize("file", sorted(TEMPLATES.rglob("*.html")), ids=lambda file: str(file.relative_to(TEMPLATES)))
def test_no_table_is_called_as_the_section_that_it_stands_in(file: pathlib.Path) -> None:
    text = file.read_text(encoding="utf-8")
    headings = (re.search(HEADING % re.escape(one), text) for one in SECTION.findall(text))
    sections = {found.group(2) for found in headings if found}
    assert not sections & {name for _, name in REGION.findall(text)}
