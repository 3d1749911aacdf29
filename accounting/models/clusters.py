"""A managed cluster, its Clock, its Journal, and the leases by which processes share work."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from accounting.models.base import LedgerModel


class Cluster(models.Model):
    """One Kubernetes cluster that this platform manages. Every process serves exactly one."""

    name = models.SlugField(
        verbose_name=_("name"),
        max_length=63,
        unique=True,
        help_text=_("Name used in URLs and by the processes' CLUSTER setting."),
    )
    created_at = models.DateTimeField(verbose_name=_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("cluster")
        verbose_name_plural = _("clusters")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Clock(LedgerModel):
    """The order of a cluster's ledger. Whoever holds this row's lock is the one writer.

    revision counts ledger transactions; tag is random per revision, so that a database restored from a backup is
    noticed;
    incarnation names one unbroken history; compared is the incarnation for which a full compare with the API server
    was done.
    """

    cluster = models.OneToOneField(Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, related_name="clock")
    revision = models.BigIntegerField(verbose_name=_("revision"), default=0)
    tag = models.CharField(verbose_name=_("tag"), max_length=16, default="", blank=True)
    incarnation = models.CharField(verbose_name=_("incarnation"), max_length=32)
    compared = models.CharField(verbose_name=_("compared"), max_length=32, default="", blank=True)
    pruned_through = models.BigIntegerField(
        verbose_name=_("pruned through"), default=0, help_text=_("Journal rows up to this revision are gone.")
    )

    class Meta:
        verbose_name = _("clock")
        verbose_name_plural = _("clocks")
        ordering = ("cluster",)

    def __str__(self) -> str:
        return f"{self.cluster} r{self.revision}"


class Journal(LedgerModel):
    """One row per changed ledger row: append-only, in commit order."""

    cluster = models.ForeignKey(
        Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    revision = models.BigIntegerField(verbose_name=_("revision"))
    seq = models.PositiveIntegerField(
        verbose_name=_("place in the revision"), help_text=_("Position within the revision, from 0.")
    )
    tag = models.CharField(verbose_name=_("tag"), max_length=16)
    at = models.DateTimeField(verbose_name=_("time"), help_text=_("Database time, read under the Clock."))
    kind = models.CharField(verbose_name=_("kind"), max_length=16, help_text=_("What changed: pod, node, quota, …"))
    key = models.CharField(verbose_name=_("key"), max_length=253, help_text=_("The row's key within its kind."))
    cause = models.CharField(verbose_name=_("cause"), max_length=64, help_text=_("The service that changed it."))
    actor = models.CharField(
        verbose_name=_("actor"), max_length=150, blank=True, help_text=_("The person or process on whose behalf.")
    )
    values = models.JSONField(
        verbose_name=_("values"), default=dict, help_text=_("The new values that matter to a reader.")
    )

    class Meta:
        verbose_name = _("journal entry")
        verbose_name_plural = _("journal")
        ordering = ("cluster", "revision", "seq")
        indexes = (models.Index(fields=("cluster", "kind", "key", "revision"), name="journal_by_row"),)
        constraints = (models.UniqueConstraint(fields=("cluster", "revision", "seq"), name="journal_in_order"),)

    def __str__(self) -> str:
        return f"r{self.revision} {self.kind} {self.key}"


class ProcessLease(models.Model):
    """Who does a job that only one process may do at a time: the watcher, or one run of a periodic task.

    epoch rises with each change of holder; the watcher's epoch is checked under the Clock in every write (fencing).
    """

    cluster = models.ForeignKey(Cluster, verbose_name=_("cluster"), on_delete=models.CASCADE, related_name="+")
    name = models.CharField(verbose_name=_("name"), max_length=64)
    holder = models.CharField(verbose_name=_("holder"), max_length=128, blank=True)
    epoch = models.BigIntegerField(verbose_name=_("epoch"), default=0)
    until = models.DateTimeField(
        verbose_name=_("until"), null=True, help_text=_("Database time after which anybody may take it.")
    )
    succeeded_at = models.DateTimeField(
        verbose_name=_("succeeded at"),
        null=True,
        help_text=_("Database time when the job was last done without a fault."),
    )

    class Meta:
        verbose_name = _("lease of a job")
        verbose_name_plural = _("leases of jobs")
        ordering = ("cluster", "name")
        constraints = (models.UniqueConstraint(fields=("cluster", "name"), name="process_lease_once"),)

    def __str__(self) -> str:
        return f"{self.name} held by {self.holder or 'nobody'} (epoch {self.epoch})"
