"""What migrations are about: the schema. What models, columns and choices are called is told by the code alone."""

from __future__ import annotations

from typing import Any, Final

from django.db import models
from django.db.migrations.autodetector import MigrationAutodetector

WORDS: Final = frozenset({"verbose_name", "help_text", "choices"})
NAMES: Final = frozenset({"verbose_name", "verbose_name_plural"})


class SchemaAutodetector(MigrationAutodetector):
    """Sees no change where only words changed: Django would write an operation for every renamed column, and build the
    changed models anew for each, though no database knows of it."""

    def deep_deconstruct(self, obj: Any) -> Any:
        """As Django compares fields, without what they are called."""
        found = super().deep_deconstruct(obj)
        if not isinstance(obj, models.Field):
            return found
        path, args, options = found
        return path, args, {key: value for key, value in options.items() if key not in WORDS}

    def generate_altered_options(self) -> None:
        """The same of models."""
        for state in (self.from_state, self.to_state):
            for model in state.models.values():
                model.options = {key: value for key, value in model.options.items() if key not in NAMES}
        super().generate_altered_options()
