#!/usr/bin/env python
"""Management commands. Settings mistakes are told in one line each, without a traceback."""

from __future__ import annotations

import os
import sys

from hami_platform import env


def main() -> int:
    """Run the command that the arguments name; 2 when the settings are wrong."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hami_platform.settings")
    try:
        env.current()
    except env.BadSettingsError as error:
        for problem in error.problems:
            sys.stderr.write(f"{problem}\n")
        return 2

    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
