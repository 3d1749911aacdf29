"""Replays vectors recorded from HAMi through this product: `./manage.py conformance PATH…`."""

from __future__ import annotations

import argparse
import json
import logging
import pathlib
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from scheduler_ext.conformance import decisions, runner, vectors

DECIDED = pathlib.Path("tests/golden/decided.json")
TOLD_EVERY_S = 2.0


class Command(BaseCommand):
    """Exit status 1 when a vector failed, 2 when a file cannot be read."""

    help = "Replay recorded vectors through the product, on a database and a cluster made for the run."
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Files or folders of vectors, and which of them."""
        parser.add_argument("paths", nargs="+", metavar="PATH", help="a file of vectors, or a folder of such files")
        parser.add_argument("--decided", metavar="FILE", help=f"answers that differ knowingly; default: {DECIDED}")
        parser.add_argument("--only", action="append", default=[], metavar="ID", help="run this vector; repeatable")
        parser.add_argument("--answers", metavar="FILE", help="write our answers of what did not pass, as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run them; one line for each that did not pass, then the counts."""
        logging.disable(logging.CRITICAL)  # what the product logs of each decision is not asked for here
        try:
            files = list(vectors.files_of(options["paths"]))
            decided = decisions.load(_decided_file(options["decided"]))
        except (vectors.BadVector, OSError) as error:
            raise CommandError(str(error), returncode=2) from error
        chosen = [
            vector for file in files for vector in file.vectors if not options["only"] or vector.id in options["only"]
        ]
        outcomes = self._run(chosen, decided)
        if options["answers"]:
            _write_answers(pathlib.Path(options["answers"]), chosen, outcomes)
        self._count(outcomes)

    def _run(self, chosen: Sequence[vectors.Vector], decided: decisions.Decisions) -> list[runner.Outcome]:
        outcomes: list[runner.Outcome] = []
        told = time.monotonic()
        with runner.running(decided) as run:
            for vector in chosen:
                outcome = run.run(vector)
                outcomes.append(outcome)
                if outcome.verdict != "passed":
                    self.stdout.write(f"{outcome.verdict.upper()} {outcome.id} {outcome.why}".replace("\n", " "))
                if time.monotonic() - told >= TOLD_EVERY_S:
                    told = time.monotonic()
                    self.stderr.write(f"… {len(outcomes)} of {len(chosen)}")
        return outcomes

    def _count(self, outcomes: Sequence[runner.Outcome]) -> None:
        counts = Counter(outcome.verdict for outcome in outcomes)
        reasons = Counter(outcome.why for outcome in outcomes if outcome.verdict == "skipped")
        for why, times in sorted(reasons.items()):
            self.stdout.write(f"{times} skipped: {why}")
        ruled = sum(1 for outcome in outcomes if outcome.rule)
        if ruled:
            self.stdout.write(f"{ruled} of the passed differ from HAMi by a decided rule")
        if counts["undecided"]:
            self.stdout.write(f"{counts['undecided']} undecided: marked with a fault, answered otherwise, not decided")
        self.stdout.write(f"{counts['passed']} passed, {counts['failed']} failed")
        if counts["failed"]:
            sys.exit(1)


def _decided_file(given: str | None) -> pathlib.Path:
    return pathlib.Path(given) if given else pathlib.Path(settings.BASE_DIR) / DECIDED


def _write_answers(file: pathlib.Path, chosen: Sequence[vectors.Vector], outcomes: Sequence[runner.Outcome]) -> None:
    answers = {
        vector.id: runner.answer_of(vector, outcome)
        for vector, outcome in zip(chosen, outcomes, strict=True)
        if outcome.verdict in ("failed", "undecided")
    }
    file.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
