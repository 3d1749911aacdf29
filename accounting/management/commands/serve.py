"""Starts a listener. The process becomes granian's parent, which needs no Django: its workers load the application."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from hami_platform import env, env_flags, listeners


class Command(BaseCommand):
    """`manage.py serve --role webhook [-- HAMi flags]`."""

    help = "Serve the console, the admission webhook or the scheduler extender."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The role, and HAMi's own flags after `--`."""
        parser.add_argument("--role", choices=listeners.ROLES, required=True)
        parser.add_argument("flags", nargs="*", help="HAMi's flags, after --")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Turn flags into settings and replace this process."""
        role = options["role"]
        try:
            variables, ignored = env_flags.variables_of(options["flags"])
            os.environ.update(variables, HAMI_ROLE=role)
            env.load(os.environ)
        except env.BadSettingsError as error:
            raise CommandError(str(error)) from error
        for flag in ignored:
            self.stderr.write(f"--{flag} has no effect: {env_flags.ACCEPTED_FLAGS[flag]}")
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, "-m", "hami_platform.listeners", role])  # noqa: S606 - no shell
