"""What every ledger model shares: a manager and instance methods that refuse writes outside a ledger transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from django.db import models

from accounting import guard, lookups  # noqa: F401  (lookups: registered by being imported)

M = TypeVar("M", bound=models.Model)


class LedgerQuerySet(models.QuerySet[M]):
    """A queryset whose writes pass the guard. `raw` SQL and `select_for_update` stay in `ledger`."""

    def _check(self, verb: str) -> None:
        guard.check(f"{verb} on {self.model.__name__}")

    def update(self, **kwargs: Any) -> int:
        self._check("update")
        return super().update(**kwargs)

    def delete(self) -> tuple[int, dict[str, int]]:
        self._check("delete")
        return super().delete()

    def bulk_create(self, objs: Iterable[M], *args: Any, **kwargs: Any) -> list[M]:
        self._check("bulk_create")
        return super().bulk_create(objs, *args, **kwargs)

    def bulk_update(self, objs: Iterable[M], fields: Iterable[str], batch_size: int | None = None) -> int:
        self._check("bulk_update")
        return super().bulk_update(objs, fields, batch_size)


class LedgerModel(models.Model):
    """Base of every model that a View reads. Only services write these, under the Clock."""

    objects = models.Manager.from_queryset(LedgerQuerySet)()

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        guard.check(f"save of {type(self).__name__}")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        guard.check(f"delete of {type(self).__name__}")
        return super().delete(*args, **kwargs)
