"""What makes a migration: a change of the schema, and no change of words."""

from __future__ import annotations

import pytest
from django.db import models
from django.db.migrations import Migration
from django.db.migrations.graph import MigrationGraph
from django.db.migrations.state import ModelState, ProjectState

from accounting.management.schema import SchemaAutodetector

PLAIN = {"verbose_name": "note", "ordering": ["id"]}


def changes(field: models.Field[str, str], options: dict[str, object]) -> bool:
    """Whether a model of one column, after it was plain, needs a migration."""

    def state(column: models.Field[str, str], named: dict[str, object]) -> ProjectState:
        found = ProjectState()
        found.add_model(
            ModelState("notes", "Note", [("id", models.AutoField(primary_key=True)), ("text", column)], named)
        )
        return found

    before = state(models.CharField(max_length=8, help_text="short", choices=[("a", "first")]), dict(PLAIN))
    graph = MigrationGraph()
    graph.add_node(("notes", "0001_initial"), Migration("0001_initial", "notes"))
    return bool(SchemaAutodetector(before, state(field, options)).changes(graph=graph))


@pytest.mark.parametrize(
    "field, options",
    [
        (models.CharField(max_length=8), PLAIN),
        (models.CharField("wording", max_length=8, help_text="longer", choices=[("a", "1st")]), PLAIN),
        (
            models.CharField(max_length=8),
            {"verbose_name": "remark", "verbose_name_plural": "remarks", "ordering": ["id"]},
        ),
    ],
)
def test_words_need_no_migration(field: models.Field[str, str], options: dict[str, object]) -> None:
    assert not changes(field, dict(options))


@pytest.mark.parametrize(
    "field, options",
    [
        (models.CharField(max_length=9), PLAIN),
        (models.CharField(max_length=8, null=True), PLAIN),
        (models.TextField(), PLAIN),
        (models.CharField(max_length=8), PLAIN | {"ordering": ["text"]}),
    ],
)
def test_everything_else_does(field: models.Field[str, str], options: dict[str, object]) -> None:
    assert changes(field, dict(options))
