"""A managed cluster, its Clock, its Journal, and the leases by which processes share work."""

from __future__ import annotations

from django.db import models

from accounting.models.base import LedgerModel


class Cluster(models.Model):
    """One Kubernetes cluster that this platform manages. Every process serves exactly one."""

    name = models.SlugField(
        max_length=63, unique=True, help_text="Name used in URLs and by the processes' CLUSTER setting."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
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

    cluster = models.OneToOneField(Cluster, on_delete=models.PROTECT, related_name="clock")
    revision = models.BigIntegerField(default=0)
    tag = models.CharField(max_length=16, default="", blank=True)
    incarnation = models.CharField(max_length=32)
    compared = models.CharField(max_length=32, default="", blank=True)
    pruned_through = models.BigIntegerField(default=0, help_text="Journal rows up to this revision are gone.")

    class Meta:
        ordering = ("cluster",)

    def __str__(self) -> str:
        return f"{self.cluster} r{self.revision}"


class Journal(LedgerModel):
    """One row per changed ledger row: append-only, in commit order."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    revision = models.BigIntegerField()
    seq = models.PositiveIntegerField(help_text="Position within the revision, from 0.")
    tag = models.CharField(max_length=16)
    at = models.DateTimeField(help_text="Database time, read under the Clock.")
    kind = models.CharField(max_length=16, help_text="What changed: pod, node, quota, …")
    key = models.CharField(max_length=253, help_text="The row's key within its kind.")
    cause = models.CharField(max_length=64, help_text="The service that changed it.")
    actor = models.CharField(max_length=150, blank=True, help_text="The person or process on whose behalf.")
    values = models.JSONField(default=dict, help_text="The new values that matter to a reader.")

    class Meta:
        ordering = ("cluster", "revision", "seq")
        indexes = (models.Index(fields=("cluster", "kind", "key", "revision"), name="journal_by_row"),)
        constraints = (models.UniqueConstraint(fields=("cluster", "revision", "seq"), name="journal_in_order"),)
        verbose_name_plural = "journal"

    def __str__(self) -> str:
        return f"r{self.revision} {self.kind} {self.key}"


class ProcessLease(models.Model):
    """Who does a job that only one process may do at a time: the watcher, or one run of a periodic task.

    epoch rises with each change of holder; the watcher's epoch is checked under the Clock in every write (fencing).
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=64)
    holder = models.CharField(max_length=128, blank=True)
    epoch = models.BigIntegerField(default=0)
    until = models.DateTimeField(null=True, help_text="Database time after which anybody may take it.")
    succeeded_at = models.DateTimeField(
        null=True, help_text="Database time when the job was last done without a fault."
    )

    class Meta:
        ordering = ("cluster", "name")
        constraints = (models.UniqueConstraint(fields=("cluster", "name"), name="process_lease_once"),)

    def __str__(self) -> str:
        return f"{self.name} held by {self.holder or 'nobody'} (epoch {self.epoch})"
