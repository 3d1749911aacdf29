"""What agents last read of devices, and what the doctor last saw of the cluster: latest values, outside the ledger,
since no decision reads them."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from accounting.models.clusters import Cluster
from accounting.models.inventory import Device


class DeviceReading(models.Model):
    """What the node's agent last read of a device through its driver. Null: driver or agent does not tell."""

    device = models.OneToOneField(
        Device, verbose_name=_("device"), on_delete=models.CASCADE, primary_key=True, related_name="reading"
    )
    at = models.DateTimeField(verbose_name=_("read"), help_text=_("Database time."))
    memory_used_mib = models.PositiveBigIntegerField(
        verbose_name=_("memory used (MiB)"), null=True, help_text=_("Highest since the report before.")
    )
    core_used_percent = models.PositiveIntegerField(
        verbose_name=_("cores used (%)"), null=True, help_text=_("Mean since the report before.")
    )
    temperature_c = models.PositiveIntegerField(verbose_name=_("temperature (°C)"), null=True)
    temperature_limit_c = models.PositiveIntegerField(
        verbose_name=_("temperature limit (°C)"), null=True, help_text=_("There the device slows itself down.")
    )
    power_w = models.PositiveIntegerField(verbose_name=_("power (W)"), null=True)
    power_limit_w = models.PositiveIntegerField(verbose_name=_("power limit (W)"), null=True)
    slowed = models.CharField(
        verbose_name=_("slowed"),
        max_length=200,
        null=True,
        help_text=_("Why its clocks are held down, by commas; empty: they are not."),
    )
    xid = models.PositiveIntegerField(
        verbose_name="XID", null=True, help_text=_("Number of the last XID that its agent heard.")
    )
    xid_at = models.DateTimeField(verbose_name=_("XID heard"), null=True)
    ailment = models.CharField(
        verbose_name=_("ailment"), max_length=200, blank=True, help_text=_("Why the agent calls it unhealthy.")
    )

    class Meta:
        verbose_name = _("device reading")
        verbose_name_plural = _("device readings")
        ordering = ("device",)

    def __str__(self) -> str:
        return f"reading of {self.device_id} at {self.at}"


class Examination(models.Model):
    """The doctor's looks as a person asked for them. One row for a cluster: never more than one is kept, or waits.

    began_at None: nobody has taken it up yet. checks are those of the last that ended, at checked_at.
    """

    cluster = models.OneToOneField(
        Cluster, verbose_name=_("cluster"), on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    asked_at = models.DateTimeField(verbose_name=_("asked for"), help_text=_("Database time."))
    asked_by = models.CharField(verbose_name=_("asked by"), max_length=150, blank=True)
    began_at = models.DateTimeField(verbose_name=_("begun"), null=True)
    ended_at = models.DateTimeField(verbose_name=_("ended"), null=True)
    step = models.CharField(verbose_name=_("step"), max_length=100, blank=True, help_text=_("What it looks at now."))
    done = models.PositiveIntegerField(verbose_name=_("looks done"), default=0)
    total = models.PositiveIntegerField(verbose_name=_("looks"), default=0)
    checks = models.JSONField(
        verbose_name=_("checks"), default=list, help_text=_("Each with name, verdict, text and what mends it.")
    )
    checked_at = models.DateTimeField(verbose_name=_("checked"), null=True)
    problem = models.CharField(
        verbose_name=_("problem"), max_length=400, blank=True, help_text=_("Why the last one came to nothing.")
    )

    class Meta:
        verbose_name = _("examination")
        verbose_name_plural = _("examinations")
        ordering = ("cluster",)

    def __str__(self) -> str:
        return f"examination asked for at {self.asked_at}"
