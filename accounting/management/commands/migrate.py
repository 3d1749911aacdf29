"""Django's command, for changes of the schema alone."""

from __future__ import annotations

from django.core.management.commands import migrate

from accounting.management.schema import SchemaAutodetector


class Command(migrate.Command):
    """As Django's, but words are no change."""

    autodetector = SchemaAutodetector
