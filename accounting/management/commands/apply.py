"""Makes what people have decided what a document says."""

from __future__ import annotations

import getpass
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError

from accounting.services import portable
from accounting.services.errors import InvalidInput

BAD_INPUT = 2


class Command(BaseCommand):
    """`manage.py apply FILE --reason …`: exit 0 when done, 1 when a dry run found differences, 2 for bad input."""

    help = (
        "Apply a document that `export` wrote: all of it or nothing. Exit code 0: done, 1: --dry-run differs, 2: input."
    )

    def add_arguments(self, parser: Any) -> None:
        """The file and why."""
        parser.add_argument("file", help="YAML or JSON; - for standard input.")
        parser.add_argument("--reason", default="", help="Kept with each change.")
        parser.add_argument("--actor", default=getpass.getuser(), help="Who changes it; by default the system's user.")
        parser.add_argument("--dry-run", action="store_true", help="Only say what would change.")
        parser.add_argument("--prune", action="store_true", help="Also remove what is not in the file.")
        parser.add_argument("--json", action="store_true", help="The changes as JSON.")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Apply it and print what changed."""
        dry_run = options["dry_run"]
        try:
            wanted = portable.parse(_read(options["file"]))
            reason = options["reason"] or ("dry run" if dry_run else "")
            done = portable.apply(
                wanted, reason=reason, actor=options["actor"], prune=options["prune"], dry_run=dry_run
            )
        except InvalidInput as fault:
            raise CommandError(str(fault), returncode=BAD_INPUT) from fault
        if options["json"]:
            told = [{"verb": one.verb, "kind": one.kind, "subject": one.subject, "fields": one.told} for one in done]
            self.stdout.write(json.dumps(told, default=str, indent=2))
        else:
            for line in _lines(done, dry_run=dry_run):
                self.stdout.write(line)
        if dry_run and done:
            sys.exit(1)


def _read(file: str) -> Any:
    try:
        text = sys.stdin.read() if file == "-" else pathlib.Path(file).read_text(encoding="utf-8")
        return yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as fault:
        raise InvalidInput("file", " ".join(str(fault).split())) from fault


def _lines(done: list[portable.Change], *, dry_run: bool) -> Iterator[str]:
    marks = {"add": "+", "change": "~", "remove": "-"}
    for one in done:
        fields = ", ".join(f"{name}: {_word(old)} → {_word(new)}" for name, (old, new) in one.told.items())
        yield f"{marks[one.verb]} {one.kind} {one.subject}" + (f"  {fields}" if one.verb == "change" else "")
    if not done:
        yield "nothing to change"
    elif dry_run:
        yield f"{len(done)} changes, none made: this was a dry run"
    else:
        yield f"{len(done)} changes made"


def _word(value: Any) -> str:
    return "–" if value is None or value == "" else str(value)
