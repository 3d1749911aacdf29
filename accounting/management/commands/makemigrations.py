"""Django's command, for changes of the schema alone."""

from __future__ import annotations

from django.core.management.commands import makemigrations

from accounting.management.schema import SchemaAutodetector


class Command(makemigrations.Command):
    """As Django's, but words are no change."""

    autodetector = SchemaAutodetector
