"""Operations about what models are called, which no database knows."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import migrations
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState


class InWordsOnly(migrations.SeparateDatabaseAndState):
    """Changes of verbose names and help texts alone: the database is not asked.

    One by one each of them would have Django build the changed model and all that refer to it anew, which for
    hundreds of columns takes longer than all other migrations together. So the built models are dropped first.
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        super().__init__(state_operations=operations)

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """The models are built again when somebody asks for them next."""
        state.__dict__.pop("apps", None)
        super().state_forwards(app_label, state)
