"""What the platform tells people: decisions, denied asks, and drift it found. Not read by decisions."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from accounting.models.clusters import Cluster


class Trace(models.Model):
    """One decision about one pod: verdict, codes with counts, details per node. Repeats of the same reason update one
    row."""

    cluster = models.ForeignKey(
        Cluster, verbose_name=_("cluster"), on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    pod_uid = models.CharField(verbose_name=_("pod uid"), max_length=64)
    namespace = models.CharField(verbose_name=_("namespace"), max_length=63)
    pod_name = models.CharField(verbose_name=_("pod name"), max_length=253)
    verdict = models.CharField(
        verbose_name=_("verdict"), max_length=16, help_text=_("placed | refused | denied | error")
    )
    summary = models.CharField(
        verbose_name=_("summary"),
        max_length=1000,
        help_text=_('For example "0/3 nodes: 2 CardInsufficientMemory, 1 CardTypeMismatch".'),
    )
    reason = models.CharField(
        verbose_name=_("reason"), max_length=64, blank=True, help_text=_("The dominant reason word.")
    )
    detail = models.JSONField(
        verbose_name=_("detail"), default=dict, help_text=_("Per node: HAMi's reason list and numbers; capped.")
    )
    inputs_hash = models.CharField(verbose_name=_("inputs hash"), max_length=64, blank=True)
    revision = models.BigIntegerField(verbose_name=_("revision"), default=0)
    first_at = models.DateTimeField(verbose_name=_("first time"))
    last_at = models.DateTimeField(verbose_name=_("last time"))
    times = models.PositiveIntegerField(verbose_name=_("how often"), default=1)

    class Meta:
        verbose_name = _("decision")
        verbose_name_plural = _("decisions")
        ordering = ("-last_at", "-id")
        constraints = (
            models.UniqueConstraint(fields=("cluster", "pod_uid", "verdict", "reason"), name="trace_once_per_reason"),
        )
        indexes = (models.Index(fields=("cluster", "namespace", "pod_name"), name="trace_by_name"),)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod_name} · {self.last_at:%Y-%m-%d %H:%M:%S}"


class DeniedAsk(models.Model):
    """Pods that admission denied for quota, kept by owner: the denied pod itself does not exist."""

    cluster = models.ForeignKey(Cluster, verbose_name=_("cluster"), on_delete=models.CASCADE, related_name="+")
    namespace = models.CharField(verbose_name=_("namespace"), max_length=63)
    owner = models.CharField(
        verbose_name=_("owner"), max_length=320, help_text=_("Kind/name of the controller, or the pod's own name.")
    )
    message = models.CharField(verbose_name=_("message"), max_length=1000)
    first_at = models.DateTimeField(verbose_name=_("first time"))
    last_at = models.DateTimeField(verbose_name=_("last time"))
    times = models.PositiveIntegerField(verbose_name=_("how often"), default=1)

    class Meta:
        verbose_name = _("denied ask")
        verbose_name_plural = _("denied asks")
        ordering = ("-last_at",)
        constraints = (models.UniqueConstraint(fields=("cluster", "namespace", "owner"), name="denied_ask_once"),)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.owner}"


class Finding(models.Model):
    """Drift between what the ledger says and what the cluster shows, its evidence, and what was done about it."""

    cluster = models.ForeignKey(Cluster, verbose_name=_("cluster"), on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(verbose_name=_("kind"), max_length=48)
    subject = models.CharField(verbose_name=_("subject"), max_length=400, help_text=_("Pod, node or device concerned."))
    message = models.CharField(verbose_name=_("message"), max_length=1000)
    evidence = models.JSONField(verbose_name=_("evidence"), default=dict)
    found_at = models.DateTimeField(verbose_name=_("found at"))
    last_seen_at = models.DateTimeField(verbose_name=_("seen last"))
    repaired_at = models.DateTimeField(verbose_name=_("repaired at"), null=True, blank=True)
    repair = models.CharField(verbose_name=_("repair"), max_length=400, blank=True)
    told_at = models.DateTimeField(
        verbose_name=_("told at"), null=True, blank=True, help_text=_("When a Kubernetes event last told of it.")
    )

    class Meta:
        verbose_name = _("finding")
        verbose_name_plural = _("findings")
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
        SIGNED_IN = "signed-in", _("signed in")
        SIGNED_OUT = "signed-out", _("signed out")
        KEPT_OUT = "kept-out", _("kept out: wrong name or password")
        TOKEN = "token", _("used a token")
        REFUSED = "refused", _("refused a change")

    cluster = models.ForeignKey(Cluster, verbose_name=_("cluster"), on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(verbose_name=_("kind"), max_length=10, choices=Kind)
    hour = models.DateTimeField(verbose_name=_("hour"))
    at = models.DateTimeField(verbose_name=_("time"), help_text=_("The last time in the hour; database time."))
    who = models.CharField(
        verbose_name=_("who"), max_length=150, blank=True, help_text=_("Account, as far as it was said.")
    )
    how = models.CharField(
        verbose_name=_("how"), max_length=100, blank=True, help_text=_("Password, provider, or the token's name.")
    )
    what = models.CharField(
        verbose_name=_("what"), max_length=300, blank=True, help_text=_("Method and path of a refused change.")
    )
    address = models.CharField(
        verbose_name=_("address"),
        max_length=64,
        blank=True,
        help_text=_("Of the connection; a proxy's, where there is one."),
    )
    times = models.PositiveIntegerField(verbose_name=_("how often"), default=1)

    class Meta:
        verbose_name = _("access record")
        verbose_name_plural = _("access records")
        ordering = ("-at", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("cluster", "kind", "hour", "who", "how", "what"), name="access_record_once_an_hour"
            ),
        )

    def __str__(self) -> str:
        return f"{self.who or '–'} · {self.get_kind_display()}"


class Notice(models.Model):
    """Something that another system is told of when it begins and when it ends. Outside the ledger."""

    cluster = models.ForeignKey(Cluster, verbose_name=_("cluster"), on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(verbose_name=_("kind"), max_length=48)
    subject = models.CharField(verbose_name=_("subject"), max_length=400)
    text = models.CharField(verbose_name=_("text"), max_length=1000)
    begun_at = models.DateTimeField(verbose_name=_("begun at"))
    ended_at = models.DateTimeField(verbose_name=_("ended at"), null=True, blank=True)
    told_begin = models.BooleanField(verbose_name=_("told begin"), default=False)
    told_end = models.BooleanField(verbose_name=_("told end"), default=False)

    class Meta:
        verbose_name = _("notice")
        verbose_name_plural = _("notices")
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
