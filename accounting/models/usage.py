"""Who held what, from when, until when; what was measured; what it costs. Append-only sources of roll-ups and
chargeback."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords

from accounting.models.base import LedgerModel
from accounting.models.clusters import Cluster


class UsageInterval(LedgerModel):
    """A stretch of time during which a pod held a constant share of one device."""

    cluster = models.ForeignKey(
        Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    pod_uid = models.CharField(verbose_name=_("pod uid"), max_length=64)
    namespace = models.CharField(verbose_name=_("namespace"), max_length=63)
    pod_name = models.CharField(verbose_name=_("pod name"), max_length=253)
    owner = models.CharField(
        verbose_name=_("owner"), max_length=320, blank=True, help_text=_("Kind/name of the pod's controller.")
    )
    node = models.CharField(verbose_name=_("node"), max_length=253)
    vendor = models.CharField(verbose_name=_("vendor"), max_length=32)
    uuid = models.CharField(verbose_name=_("uuid"), max_length=128)
    model = models.CharField(verbose_name=_("model"), max_length=128, blank=True)
    slots = models.PositiveIntegerField(verbose_name=_("shares"))
    memory_mib = models.PositiveBigIntegerField(verbose_name=_("memory (MiB)"))
    core_percent = models.PositiveIntegerField(verbose_name=_("cores (%)"))
    started_at = models.DateTimeField(verbose_name=_("started at"))
    ended_at = models.DateTimeField(verbose_name=_("ended at"), null=True, blank=True)
    simulated = models.BooleanField(
        verbose_name=_("simulated"), default=False, help_text=_("Made up for a demonstration.")
    )

    class Meta:
        verbose_name = _("usage interval")
        verbose_name_plural = _("usage intervals")
        ordering = ("cluster", "started_at", "id")
        indexes = (
            models.Index(fields=("cluster", "pod_uid", "ended_at"), name="usage_open_by_pod"),
            models.Index(fields=("cluster", "started_at"), name="usage_by_start"),
            models.Index(fields=("cluster", "ended_at"), name="usage_by_end"),
            models.Index(fields=("cluster", "node", "ended_at"), name="usage_by_node"),
        )

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod_name} · {self.uuid} · {self.started_at:%Y-%m-%d %H:%M}"


class Registration(LedgerModel):
    """A stretch of time during which a node offered a device of constant amounts: the capacity that bills divide."""

    cluster = models.ForeignKey(
        Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    node = models.CharField(verbose_name=_("node"), max_length=253)
    vendor = models.CharField(verbose_name=_("vendor"), max_length=32)
    uuid = models.CharField(verbose_name=_("uuid"), max_length=128)
    model = models.CharField(verbose_name=_("model"), max_length=128, blank=True)
    memory_mib = models.PositiveBigIntegerField(verbose_name=_("memory (MiB)"))
    core_percent = models.PositiveIntegerField(verbose_name=_("cores (%)"))
    started_at = models.DateTimeField(verbose_name=_("started at"))
    ended_at = models.DateTimeField(verbose_name=_("ended at"), null=True, blank=True)

    class Meta:
        verbose_name = _("registration")
        verbose_name_plural = _("registrations")
        ordering = ("cluster", "started_at", "id")
        indexes = (
            models.Index(fields=("cluster", "ended_at"), name="registration_by_end"),
            models.Index(fields=("cluster", "node", "ended_at"), name="registration_by_node"),
        )

    def __str__(self) -> str:
        return f"{self.node}/{self.uuid} from {self.started_at}"


class LateUsage(models.Model):
    """Hours that may be rolled up already have changed, from this time on: an end or a start was told late."""

    cluster = models.ForeignKey(Cluster, verbose_name=_("cluster"), on_delete=models.CASCADE, related_name="+")
    since = models.DateTimeField(verbose_name=_("since"))

    class Meta:
        verbose_name = _("late usage")
        verbose_name_plural = _("late usage")
        ordering = ("cluster", "since", "id")

    def __str__(self) -> str:
        return f"from {self.since}"


class UsageHour(models.Model):
    """Use of one model by one namespace's owner in one hour, or what nobody used: the roll-up that charts and bills
    read. `card_us` of all rows of an hour sum to the time that devices were there."""

    cluster = models.ForeignKey(
        Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    hour = models.DateTimeField(verbose_name=_("hour"))
    namespace = models.CharField(
        verbose_name=_("namespace"), max_length=63, blank=True, help_text=_("Empty: nobody, the idle time.")
    )
    owner = models.CharField(
        verbose_name=_("owner"), max_length=320, blank=True, help_text=_("Kind/name of the pods' controller.")
    )
    vendor = models.CharField(verbose_name=_("vendor"), max_length=32)
    model = models.CharField(verbose_name=_("model"), max_length=128, blank=True)
    card_us = models.PositiveBigIntegerField(
        verbose_name=_("device time (µs)"), default=0, help_text=_("Microseconds of whole devices.")
    )
    measured_us = models.PositiveBigIntegerField(
        verbose_name=_("measured (µs)"),
        default=0,
        help_text=_("Of the device time: while use was measured. Counted when the hour is over."),
    )
    unused_us = models.PositiveBigIntegerField(
        verbose_name=_("unused (µs)"),
        default=0,
        help_text=_("Of the measured time: held beyond the larger of the measured parts of memory and cores."),
    )
    unbusy_us = models.PositiveBigIntegerField(
        verbose_name=_("cores idle (µs)"),
        default=0,
        help_text=_("Of the measured time: while the share's own cores were measured idle."),
    )
    slot_s = models.PositiveBigIntegerField(verbose_name=_("shares (s)"), default=0)
    memory_mib_s = models.PositiveBigIntegerField(
        verbose_name=_("memory (MiB·s)"), default=0, help_text=_("Held; of the idle row: free.")
    )
    core_percent_s = models.PositiveBigIntegerField(
        verbose_name=_("cores (%·s)"), default=0, help_text=_("Held; of the idle row: free.")
    )
    simulated = models.BooleanField(verbose_name=_("simulated"), default=False)

    class Meta:
        verbose_name = _("hour of usage")
        verbose_name_plural = _("hours of usage")
        ordering = ("cluster", "hour", "namespace", "owner", "vendor", "model")
        constraints = (
            models.UniqueConstraint(
                fields=("cluster", "hour", "namespace", "owner", "vendor", "model", "simulated"),
                name="usage_hour_once",
            ),
        )

    def __str__(self) -> str:
        return f"{self.namespace or '–'} · {self.model} · {self.hour:%Y-%m-%d %H:%M}"


class Price(LedgerModel):
    """What a device of a model costs per hour, from a day on."""

    cluster = models.ForeignKey(Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, related_name="prices")
    vendor = models.CharField(verbose_name=_("vendor"), max_length=32)
    model_pattern = models.CharField(verbose_name=_("model pattern"), max_length=128)
    device_hour = models.DecimalField(
        verbose_name=_("price of a device hour"),
        max_digits=12,
        decimal_places=4,
        help_text=_("Price of one whole device for one hour."),
    )
    currency = models.CharField(verbose_name=_("currency"), max_length=3, default="EUR")
    valid_from = models.DateField(verbose_name=_("valid from"))

    history = HistoricalRecords(history_change_reason_field=models.TextField(blank=False))

    class Meta:
        verbose_name = _("price")
        verbose_name_plural = _("prices")
        ordering = ("cluster", "vendor", "model_pattern", "valid_from")

    def __str__(self) -> str:
        return f"{self.model_pattern} · {self.device_hour} {self.currency}"


class Measurement(models.Model):
    """Use of a device or of a container's share, as an agent measured it: one row for ten minutes. Bounded by
    retention; no decision reads it."""

    cluster = models.ForeignKey(
        Cluster, verbose_name=_("cluster"), on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    slot = models.DateTimeField(verbose_name=_("ten minutes"), help_text=_("Start of the ten minutes."))
    at = models.DateTimeField(
        verbose_name=_("time"), help_text=_("When the latest of them was measured; database time.")
    )
    node = models.CharField(verbose_name=_("node"), max_length=253)
    uuid = models.CharField(verbose_name=_("uuid"), max_length=128)
    pod_uid = models.CharField(
        verbose_name=_("pod uid"), max_length=64, blank=True, help_text=_("Empty: the whole device.")
    )
    container = models.CharField(verbose_name=_("container"), max_length=253, blank=True)
    memory_used_mib = models.PositiveBigIntegerField(
        verbose_name=_("memory used (MiB)"), null=True, help_text=_("The latest report's highest, MiB.")
    )
    memory_peak_mib = models.PositiveBigIntegerField(
        verbose_name=_("memory peak (MiB)"), null=True, help_text=_("Highest in the ten minutes, MiB.")
    )
    core_used_percent = models.PositiveIntegerField(
        verbose_name=_("cores used (%)"), null=True, help_text=_("The latest report's mean, % of a device.")
    )

    class Meta:
        verbose_name = _("measurement")
        verbose_name_plural = _("measurements")
        ordering = ("cluster", "slot", "id")
        constraints = (
            models.UniqueConstraint(
                fields=("cluster", "node", "uuid", "pod_uid", "container", "slot"), name="measurement_once_per_slot"
            ),
        )
        # None has `at`, which changes with every report: an update then touches no index.
        indexes = (
            models.Index(fields=("cluster", "uuid", "slot"), name="measurement_by_device"),
            models.Index(fields=("cluster", "pod_uid", "slot"), name="measurement_by_pod"),
            models.Index(fields=("cluster", "slot"), name="measurement_by_slot"),
        )

    def __str__(self) -> str:
        return f"{self.uuid} at {self.at}"
