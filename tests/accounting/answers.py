"""What answers hold, streamed or not."""

from __future__ import annotations

import csv
import io
from typing import Any


def csv_lines(answer: Any) -> list[dict[str, str]]:
    """The rows of a file, by its header."""
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return list(csv.DictReader(io.StringIO(body.decode())))


def results(answer: Any) -> list[dict[str, Any]]:
    """The rows of a list."""
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["results"]
    return found
