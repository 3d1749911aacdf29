"""What the platform tells people: decisions, denied asks, and drift it found. Not read by decisions."""

from __future__ import annotations

from django.db import models

from accounting.models.clusters import Cluster


class Trace(models.Model):
    """One decision about one pod: verdict, codes with counts, details per node. Repeats of the same reason update one
    row."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    pod_uid = models.CharField(max_length=64)
    namespace = models.CharField(max_length=63)
    pod_name = models.CharField(max_length=253)
    verdict = models.CharField(max_length=16, help_text="placed | refused | denied | error")
    summary = models.CharField(
        max_length=1000, help_text='For example "0/3 nodes: 2 CardInsufficientMemory, 1 CardTypeMismatch".'
    )
    reason = models.CharField(max_length=64, blank=True, help_text="The dominant reason word.")
    detail = models.JSONField(default=dict, help_text="Per node: HAMi's reason list and numbers; capped.")
    inputs_hash = models.CharField(max_length=64, blank=True)
    revision = models.BigIntegerField(default=0)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    times = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ("-last_at", "-id")
        constraints = (
            models.UniqueConstraint(fields=("cluster", "pod_uid", "verdict", "reason"), name="trace_once_per_reason"),
        )
        indexes = (models.Index(fields=("cluster", "namespace", "pod_name"), name="trace_by_name"),)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod_name} {self.verdict}: {self.summary}"


class DeniedAsk(models.Model):
    """Pods that admission denied for quota, kept by owner: the denied pod itself does not exist."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    namespace = models.CharField(max_length=63)
    owner = models.CharField(max_length=320, help_text="Kind/name of the controller, or the pod's own name.")
    message = models.CharField(max_length=1000)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    times = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ("-last_at",)
        constraints = (models.UniqueConstraint(fields=("cluster", "namespace", "owner"), name="denied_ask_once"),)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.owner}: {self.message}"


class Finding(models.Model):
    """Drift between what the ledger says and what the cluster shows, its evidence, and what was done about it."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=48)
    subject = models.CharField(max_length=400, help_text="Pod, node or device concerned.")
    message = models.CharField(max_length=1000)
    evidence = models.JSONField(default=dict)
    found_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    repaired_at = models.DateTimeField(null=True, blank=True)
    repair = models.CharField(max_length=400, blank=True)
    told_at = models.DateTimeField(null=True, blank=True, help_text="When a Kubernetes event last told of it.")

    class Meta:
        ordering = ("-last_seen_at", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("cluster", "kind", "subject"),
                condition=models.Q(repaired_at__isnull=True),
                name="finding_open_once",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}"


class AccessRecord(models.Model):
    """Somebody came in, was kept out, used a token, or was refused a change; repeats within an hour are one row.
    Append-only for people."""

    class Kind(models.TextChoices):
        SIGNED_IN = "signed-in", "signed in"
        SIGNED_OUT = "signed-out", "signed out"
        KEPT_OUT = "kept-out", "kept out: wrong name or password"
        TOKEN = "token", "used a token"
        REFUSED = "refused", "refused a change"

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=10, choices=Kind)
    hour = models.DateTimeField()
    at = models.DateTimeField(help_text="The last time in the hour; database time.")
    who = models.CharField(max_length=150, blank=True, help_text="Account, as far as it was said.")
    how = models.CharField(max_length=100, blank=True, help_text="Password, provider, or the token's name.")
    what = models.CharField(max_length=300, blank=True, help_text="Method and path of a refused change.")
    address = models.CharField(max_length=64, blank=True, help_text="Of the connection; a proxy's, where there is one.")
    times = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ("-at", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("cluster", "kind", "hour", "who", "how", "what"), name="access_record_once_an_hour"
            ),
        )

    def __str__(self) -> str:
        return f"{self.who or 'somebody'} {self.get_kind_display()}"


class Notice(models.Model):
    """Something that another system is told of when it begins and when it ends. Outside the ledger."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=48)
    subject = models.CharField(max_length=400)
    text = models.CharField(max_length=1000)
    begun_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    told_begin = models.BooleanField(default=False)
    told_end = models.BooleanField(default=False)

    class Meta:
        ordering = ("-begun_at", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("cluster", "kind", "subject"),
                condition=models.Q(ended_at__isnull=True),
                name="notice_standing_once",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}"
