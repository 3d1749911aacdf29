"""Prints the path of a link that signs a person of the demonstration in, once, within ten minutes."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse

from accounting.services import errors, login_links
from hami_platform import env, env_values


class Command(BaseCommand):
    """`manage.py login_link USER`."""

    help = "Print a one-time link that signs a person in. Demonstrations only."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Whom."""
        parser.add_argument("user")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print it; the page behind it answers only on this machine."""
        if not env.current().demo:
            raise CommandError("HAMI_DEMO is off: people sign in with a password or a provider")
        try:
            secret = login_links.login_link_create(user=options["user"])
        except errors.InvalidInput as error:
            raise CommandError(str(error)) from error
        bind = env.current().web_bind
        where = bind if bind.loopback else env_values.Address("127.0.0.1", bind.port)
        path = reverse("console:login-link", args=(secret,))
        self.stdout.write(f"http://{where}{path}")
