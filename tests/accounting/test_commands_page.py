"""The page of commands names every command of the project, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import django

ROOT = Path(__file__).parents[2]


def test_every_command_is_on_the_page() -> None:
    folders = (ROOT / "accounting", ROOT / "scheduler_ext")
    there = {path.stem for folder in folders for path in folder.glob("management/commands/[!_]*.py")}
    djangos = {path.stem for path in Path(django.__file__).parent.glob("core/management/commands/[!_]*.py")}
    page = (ROOT / "docs" / "commands.md").read_text()
    rows = re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE)
    named = {words.split()[0] for row in rows for words in re.findall(r"`([a-z_]+[^`]*)`", row)} - {
        "webhook",
        "extender",
    }
    assert named == there - djangos
