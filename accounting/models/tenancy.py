"""Tenants, namespaces and the limits on them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords

from accounting.models.base import LedgerModel
from accounting.models.clusters import Cluster


class Mode(models.TextChoices):
    """What happens to a pod that exceeds a limit of its namespace or of a tenant above it."""

    ENFORCE = "enforce", _("enforce: deny at admission")
    WAIT = "wait", _("wait: admit gated, start when there is room")
    WARN = "warn", _("warn: admit, and say by how much it is over")
    OBSERVE = "observe", _("observe: admit silently")


class Tenant(LedgerModel):
    """A customer, team or project that namespaces belong to. Tenants form a tree; a limit of a parent binds its
    children."""

    cluster = models.ForeignKey(Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, related_name="tenants")
    name = models.SlugField(verbose_name=_("name"), max_length=63)
    parent = models.ForeignKey(
        "self", verbose_name=_("parent"), null=True, blank=True, on_delete=models.PROTECT, related_name="children"
    )
    note = models.CharField(verbose_name=_("note"), max_length=400, blank=True)

    history = HistoricalRecords(history_change_reason_field=models.TextField(blank=False))

    class Meta:
        verbose_name = _("tenant")
        verbose_name_plural = _("tenants")
        ordering = ("cluster", "name")
        constraints = (models.UniqueConstraint(fields=("cluster", "name"), name="tenant_once_per_cluster"),)

    def __str__(self) -> str:
        return self.name


class Namespace(LedgerModel):
    """A Kubernetes namespace. Unknown ones get a row with the default mode when their first device pod is seen."""

    cluster = models.ForeignKey(Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, related_name="namespaces")
    name = models.CharField(verbose_name=_("name"), max_length=63)
    tenant = models.ForeignKey(
        Tenant, verbose_name=_("tenant"), null=True, blank=True, on_delete=models.PROTECT, related_name="namespaces"
    )
    mode = models.CharField(verbose_name=_("mode"), max_length=8, choices=Mode, default=Mode.ENFORCE)

    history = HistoricalRecords(history_change_reason_field=models.TextField(blank=False))

    class Meta:
        verbose_name = _("namespace")
        verbose_name_plural = _("namespaces")
        ordering = ("cluster", "name")
        constraints = (models.UniqueConstraint(fields=("cluster", "name"), name="namespace_once_per_cluster"),)

    def __str__(self) -> str:
        return self.name


class Quota(LedgerModel):
    """Limits on one namespace or one tenant, for all devices or for some. Empty limit: none. 0: nothing allowed."""

    LIMITS = (
        "devices",
        "memory_mib",
        "core_percent",
        "pod_devices",
        "pod_memory_mib",
        "pod_core_percent",
        "device_memory_mib",
    )

    cluster = models.ForeignKey(Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, related_name="quotas")
    name = models.SlugField(verbose_name=_("name"), max_length=63, default="default")
    namespace = models.ForeignKey(
        Namespace, verbose_name=_("namespace"), null=True, blank=True, on_delete=models.PROTECT, related_name="quotas"
    )
    tenant = models.ForeignKey(
        Tenant, verbose_name=_("tenant"), null=True, blank=True, on_delete=models.PROTECT, related_name="quotas"
    )
    vendor = models.CharField(
        verbose_name=_("vendor"),
        max_length=32,
        blank=True,
        help_text=_("Count only this vendor's devices. Empty: every vendor."),
    )
    model_pattern = models.CharField(
        verbose_name=_("model pattern"),
        max_length=128,
        blank=True,
        help_text=_("Count only models that match, for example *A100*. Empty: every model."),
    )
    devices = models.PositiveIntegerField(
        verbose_name=_("devices"), null=True, blank=True, help_text=_("Shares of devices held at once.")
    )
    memory_mib = models.PositiveBigIntegerField(
        null=True, blank=True, verbose_name=_("memory (MiB)"), help_text=_("MiB, not bytes: 16 GiB is 16384.")
    )
    core_percent = models.PositiveIntegerField(
        null=True,
        blank=True,
        verbose_name=_("cores (%)"),
        help_text=_("Percent points of a device: 250 is two and a half devices."),
    )
    pod_devices = models.PositiveIntegerField(null=True, blank=True, verbose_name=_("devices per pod"))
    pod_memory_mib = models.PositiveBigIntegerField(null=True, blank=True, verbose_name=_("memory per pod (MiB)"))
    pod_core_percent = models.PositiveIntegerField(null=True, blank=True, verbose_name=_("cores per pod (%)"))
    device_memory_mib = models.PositiveBigIntegerField(
        null=True, blank=True, verbose_name=_("memory per device share (MiB)")
    )
    valid_from = models.DateTimeField(verbose_name=_("valid from"), null=True, blank=True)
    valid_until = models.DateTimeField(
        verbose_name=_("valid until"), null=True, blank=True, help_text=_("Stops binding then.")
    )
    in_force = models.BooleanField(
        verbose_name=_("in force"),
        default=True,
        editable=False,
        help_text=_("Machine column: whether today lies in its validity."),
    )
    returns_at = models.DateTimeField(
        verbose_name=_("returns at"),
        null=True,
        blank=True,
        editable=False,
        help_text=_("When limits that were set for a while go back by themselves."),
    )
    returns_to = models.JSONField(
        verbose_name=_("returns to"),
        default=dict,
        blank=True,
        editable=False,
        help_text=_("The limits they go back to."),
    )
    reason = models.TextField(verbose_name=_("reason"), help_text=_("Why these limits; required at every change."))
    version = models.PositiveIntegerField(
        verbose_name=_("version"),
        default=1,
        editable=False,
        help_text=_("Rises with each change: detects lost updates."),
    )

    history = HistoricalRecords(history_change_reason_field=models.TextField(blank=False))

    class Meta:
        verbose_name = _("quota")
        verbose_name_plural = _("quotas")
        ordering = ("cluster", "namespace__name", "tenant__name", "name")
        constraints = (
            models.CheckConstraint(
                name="quota_has_one_scope",
                condition=Q(namespace__isnull=False, tenant__isnull=True)
                | Q(namespace__isnull=True, tenant__isnull=False),
            ),
            models.UniqueConstraint(
                fields=("cluster", "namespace", "name"),
                condition=Q(namespace__isnull=False),
                name="quota_once_per_namespace",
            ),
            models.UniqueConstraint(
                fields=("cluster", "tenant", "name"), condition=Q(tenant__isnull=False), name="quota_once_per_tenant"
            ),
        )

    def __str__(self) -> str:
        return f"{self.namespace or self.tenant}/{self.name}"


class NativeQuota(LedgerModel):
    """One limit read from one Kubernetes ResourceQuota object. The effective limit is the minimum over all of a
    namespace's rows."""

    class Resource(models.TextChoices):
        MEMORY = "memory_mib", _("memory (MiB)")
        CORES = "core_percent", _("cores (%)")

    cluster = models.ForeignKey(
        Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, related_name="native_quotas"
    )
    namespace = models.CharField(verbose_name=_("namespace"), max_length=63)
    object_name = models.CharField(verbose_name=_("object name"), max_length=253)
    resource_key = models.CharField(
        verbose_name=_("resource key"),
        max_length=253,
        help_text=_("The key in spec.hard, for example limits.nvidia.com/gpumem."),
    )
    vendor = models.CharField(verbose_name=_("vendor"), max_length=32)
    resource = models.CharField(verbose_name=_("resource"), max_length=16, choices=Resource)
    limit = models.BigIntegerField(
        verbose_name=_("limit"), help_text=_("In our unit, the vendor's memory factor applied.")
    )

    class Meta:
        verbose_name = _("ResourceQuota of Kubernetes")
        verbose_name_plural = _("ResourceQuotas of Kubernetes")
        ordering = ("cluster", "namespace", "object_name", "resource_key", "vendor")
        constraints = (
            models.UniqueConstraint(
                fields=("cluster", "namespace", "object_name", "resource_key", "vendor"), name="native_quota_once"
            ),
        )

    def __str__(self) -> str:
        return f"{self.namespace}/{self.object_name} {self.resource_key}={self.limit}"
