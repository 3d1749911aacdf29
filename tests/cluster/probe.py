"""The process behind ledger.py: answers questions about the ledger as JSON lines, with the platform's own code.

It runs with the platform's settings. Everything it reads goes through the product's selectors and View.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import django

Answer = Any


def main() -> None:
    """Answer one line for each line read, until the input ends."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hami_platform.settings")
    django.setup()
    from django import db

    from tests.cluster import probe_answers

    answers: dict[str, Callable[..., Answer]] = probe_answers.ANSWERS
    for line in sys.stdin:
        asked = json.loads(line)
        db.close_old_connections()  # tests take the database away for a while
        try:
            answer = {"answer": answers[asked["question"]](**asked["arguments"])}
        except Exception as problem:  # noqa: BLE001 - the test shall see whatever it was
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        sys.stdout.write(json.dumps(answer, default=str) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
