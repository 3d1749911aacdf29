"""How often Python looks for garbage in cycles: seldom, since nearly all of ours is freed without that.

A page of a list of pods is a hundred thousand values that live for a moment. By default each 700 of them have Python
look at what is young, and now and then at all there is: a quarter of the worker's processor time. Knows no app and no
Django.
"""

from __future__ import annotations

import gc
from typing import Final

YOUNG: Final = 50_000
"""Values more than at the last look, until the young are looked at; a few MiB."""
OLDER: Final = 20
"""Looks at the young until the older are looked at, and at those until all are."""


def calm() -> None:
    """For a process that serves: keep what was loaded so far out of it, and look seldom. Call when all is imported."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, OLDER, OLDER)
