"""What decisions were taken on, kept in pieces so that they can be taken again. Not read by decisions."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from accounting.models.clusters import Cluster


class InputHour(models.Model):
    """An hour of decisions: what was kept of it goes all at once, so that no piece is missing among others."""

    cluster = models.ForeignKey(Cluster, verbose_name=_("cluster"), on_delete=models.CASCADE, related_name="+")
    hour = models.DateTimeField(verbose_name=_("hour"))
    size_bytes = models.BigIntegerField(verbose_name=_("size in bytes"), default=0)

    class Meta:
        verbose_name = _("kept hour")
        verbose_name_plural = _("kept hours")
        ordering = ("hour",)
        constraints = (models.UniqueConstraint(fields=("cluster", "hour"), name="input_hour_once"),)

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}"


class InputPiece(models.Model):
    """A part of what decisions were taken on, by the digest of what it says: what several share is there once."""

    hour = models.ForeignKey(InputHour, verbose_name=_("kept hour"), on_delete=models.CASCADE, related_name="pieces")
    digest = models.CharField(verbose_name=_("digest"), max_length=32)
    body = models.BinaryField(verbose_name=_("body"))

    class Meta:
        verbose_name = _("kept piece")
        verbose_name_plural = _("kept pieces")
        ordering = ("hour", "digest")
        constraints = (models.UniqueConstraint(fields=("hour", "digest"), name="input_piece_once"),)

    def __str__(self) -> str:
        return self.digest
