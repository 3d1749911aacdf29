"""Nodes and their devices. OBSERVED columns are written by watcher and reconcile, HUMAN columns by people; neither
overwrites the other."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords

from accounting.models.base import LedgerModel
from accounting.models.clusters import Cluster


class Node(LedgerModel):
    """A node that has, or had, devices. Retired when the node object is gone; never deleted while something refers to
    it."""

    cluster = models.ForeignKey(
        Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, db_index=False, related_name="nodes"
    )
    name = models.CharField(verbose_name=_("name"), max_length=253)
    uid = models.CharField(verbose_name=_("uid"), max_length=64, blank=True)
    retired = models.BooleanField(
        verbose_name=_("retired"), default=False, help_text=_("The node object is gone; its devices offer nothing.")
    )
    unschedulable = models.BooleanField(
        verbose_name=_("unschedulable"),
        default=False,
        help_text=_("Cordoned in Kubernetes (shown; kube-scheduler decides)."),
    )
    agent = models.CharField(
        verbose_name=_("agent"),
        max_length=64,
        blank=True,
        help_text=_("Version of our agent on this node; empty: HAMi's plugin, or none."),
    )
    limits = models.CharField(
        verbose_name=_("limits"),
        max_length=63,
        blank=True,
        help_text=_("How the agent holds containers to their shares; empty: it does not say."),
    )
    labelled = models.JSONField(
        verbose_name=_("labelled"),
        default=list,
        blank=True,
        help_text=_("Vendors whose label the node carries: narrowed pods may come here."),
    )
    gone_vendors = models.JSONField(
        verbose_name=_("gone vendors"),
        default=list,
        blank=True,
        help_text=_("Vendors whose plugin is gone (allocatable 0 and stale)."),
    )
    pair_scores = models.JSONField(
        verbose_name=_("pair scores"),
        default=list,
        blank=True,
        help_text=_("[[uuid, uuid, score], …] from the topology annotation."),
    )
    accounting_unknown = models.CharField(
        verbose_name=_("holders unknown"),
        max_length=400,
        blank=True,
        help_text=_("Why this node takes no new device pods: a live pod on it that cannot be decoded."),
    )
    fingerprint = models.CharField(
        verbose_name=_("fingerprint"),
        max_length=64,
        blank=True,
        help_text=_("Hash of everything observed that was last written."),
    )
    problem = models.CharField(
        verbose_name=_("problem"),
        max_length=400,
        blank=True,
        help_text=_("Why its register annotation could not be used."),
    )

    class Meta:
        verbose_name = _("node")
        verbose_name_plural = _("nodes")
        ordering = ("cluster", "name")
        constraints = (models.UniqueConstraint(fields=("cluster", "name"), name="node_once_per_cluster"),)

    def __str__(self) -> str:
        return self.name


class NodeLiveness(models.Model):
    """When each sign of life of a node's plugin was last seen. Outside the ledger: stamps are not decisions."""

    node = models.OneToOneField(Node, verbose_name=_("node"), on_delete=models.CASCADE, related_name="liveness")
    allocatable = models.JSONField(
        verbose_name=_("allocatable"),
        default=dict,
        blank=True,
        help_text=_("Resource name → count, of the managed resources."),
    )
    marks = models.JSONField(
        verbose_name=_("marks"),
        default=dict,
        blank=True,
        help_text=_("What the plugins last wrote on the node: a change is a sign of life."),
    )
    lease_renewed = models.CharField(
        verbose_name=_("renewTime as read"),
        max_length=40,
        blank=True,
        help_text=_("renewTime of the agent's Lease as last read; its clock is not ours."),
    )
    handshake_at = models.DateTimeField(
        verbose_name=_("handshake at"),
        null=True,
        blank=True,
        help_text=_("Database time when a plugin's handshake or registration was seen to change."),
    )
    lease_at = models.DateTimeField(
        verbose_name=_("Lease seen renewed"),
        null=True,
        blank=True,
        help_text=_("Database time when the agent's Lease was seen renewed."),
    )
    report_at = models.DateTimeField(verbose_name=_("last report"), null=True, blank=True)
    first_seen_at = models.DateTimeField(verbose_name=_("first seen"), null=True, blank=True)

    class Meta:
        verbose_name = _("signs of life of a node")
        verbose_name_plural = _("signs of life of nodes")
        ordering = ("node",)

    def __str__(self) -> str:
        return f"liveness of {self.node}"


class Device(LedgerModel):
    """One physical device as its node's plugin registers it, and what people decided about it."""

    OBSERVED = (
        "index",
        "model",
        "memory_mib",
        "core_percent",
        "slots",
        "numa",
        "mode",
        "healthy",
        "mig_profiles",
        "custom",
        "registered",
        "conflict",
        "cordoned_on_node",
    )
    HUMAN = ("cordoned", "reserved_mib", "note")

    cluster = models.ForeignKey(
        Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, db_index=False, related_name="devices"
    )
    node = models.ForeignKey(Node, verbose_name=_("node"), on_delete=models.PROTECT, related_name="devices")
    vendor = models.CharField(verbose_name=_("vendor"), max_length=32)
    uuid = models.CharField(verbose_name=_("uuid"), max_length=128)
    index = models.PositiveIntegerField(verbose_name=_("index"), default=0)
    model = models.CharField(verbose_name=_("model"), max_length=128, blank=True)
    memory_mib = models.PositiveBigIntegerField(
        verbose_name=_("memory (MiB)"), help_text=_("Registered memory, after the plugin's scaling.")
    )
    core_percent = models.PositiveIntegerField(verbose_name=_("cores (%)"))
    slots = models.PositiveIntegerField(verbose_name=_("shares"), help_text=_("Greatest number of sharers."))
    numa = models.IntegerField(verbose_name=_("NUMA node"), default=0)
    mode = models.CharField(verbose_name=_("mode"), max_length=32, blank=True)
    healthy = models.BooleanField(verbose_name=_("healthy"), default=True)
    mig_profiles = models.JSONField(verbose_name=_("MIG profiles"), default=list, blank=True)
    custom = models.JSONField(
        verbose_name=_("custom"),
        default=dict,
        blank=True,
        help_text=_("What the plugin says of the device beyond amounts, such as its topology."),
    )
    registered = models.BooleanField(
        verbose_name=_("registered"), default=True, help_text=_("Present in its node's latest registration.")
    )
    conflict = models.BooleanField(
        verbose_name=_("conflict"),
        default=False,
        help_text=_("The same uuid is live on another node: usable on neither."),
    )
    cordoned_on_node = models.BooleanField(
        verbose_name=_("cordoned on node"),
        default=False,
        help_text=_("Listed in the node annotation hami.io/device-cordon."),
    )

    cordoned = models.BooleanField(verbose_name=_("cordoned"), default=False, help_text=_("Place no new shares here."))
    reserved_mib = models.PositiveBigIntegerField(
        default=0,
        verbose_name=_("reserved (MiB)"),
        help_text=_("Kept back from pods for good, for example for the driver. MiB, not bytes."),
    )
    note = models.CharField(verbose_name=_("note"), max_length=400, blank=True)

    history = HistoricalRecords(
        excluded_fields=(
            "index",
            "model",
            "memory_mib",
            "core_percent",
            "slots",
            "numa",
            "mode",
            "healthy",
            "mig_profiles",
            "custom",
            "registered",
            "conflict",
            "cordoned_on_node",
        ),
        history_change_reason_field=models.TextField(blank=False),
    )

    class Meta:
        verbose_name = _("device")
        verbose_name_plural = _("devices")
        ordering = ("cluster", "node__name", "vendor", "index", "uuid")
        # None binds reserved_mib to memory_mib: a plugin may register less than a person once kept back.
        constraints = (
            models.UniqueConstraint(fields=("cluster", "node", "vendor", "uuid"), name="device_once_per_node"),
        )
        indexes = (models.Index(fields=("cluster", "uuid"), name="device_by_uuid"),)

    def __str__(self) -> str:
        return f"{self.node.name}/{self.index} {self.uuid}"


class Hold(LedgerModel):
    """A person's own reservation on a device (an out-of-band process, maintenance): use of the device, of no
    namespace."""

    cluster = models.ForeignKey(Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, related_name="holds")
    device = models.ForeignKey(Device, verbose_name=_("device"), on_delete=models.PROTECT, related_name="holds")
    memory_mib = models.PositiveBigIntegerField(default=0, verbose_name=_("memory (MiB)"))
    core_percent = models.PositiveIntegerField(default=0, verbose_name=_("cores (%)"))
    slots = models.PositiveIntegerField(verbose_name=_("shares"), default=0)
    reason = models.TextField(verbose_name=_("reason"), help_text=_("Why, for whoever finds it."))
    expires_at = models.DateTimeField(
        verbose_name=_("expires at"),
        null=True,
        blank=True,
        help_text=_("Ends by itself then. Empty: until somebody ends it."),
    )
    in_force = models.BooleanField(verbose_name=_("in force"), default=True, editable=False)
    created_by = models.CharField(verbose_name=_("created by"), max_length=150, blank=True, editable=False)

    history = HistoricalRecords(history_change_reason_field=models.TextField(blank=False))

    class Meta:
        verbose_name = _("hold")
        verbose_name_plural = _("holds")
        ordering = ("cluster", "device", "id")

    def __str__(self) -> str:
        return f"{self.device} · {self.memory_mib} MiB"
