"""Nodes and their devices. OBSERVED columns are written by watcher and reconcile, HUMAN columns by people; neither
overwrites the other."""

from __future__ import annotations

from django.db import models
from simple_history.models import HistoricalRecords

from accounting.models.base import LedgerModel
from accounting.models.clusters import Cluster


class Node(LedgerModel):
    """A node that has, or had, devices. Retired when the node object is gone; never deleted while something refers to
    it."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="nodes")
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64, blank=True)
    retired = models.BooleanField(default=False, help_text="The node object is gone; its devices offer nothing.")
    unschedulable = models.BooleanField(
        default=False, help_text="Cordoned in Kubernetes (shown; kube-scheduler decides)."
    )
    agent = models.CharField(
        max_length=64, blank=True, help_text="Version of our agent on this node; empty: HAMi's plugin, or none."
    )
    limits = models.CharField(
        max_length=63, blank=True, help_text="How the agent holds containers to their shares; empty: it does not say."
    )
    labelled = models.JSONField(
        default=list, blank=True, help_text="Vendors whose label the node carries: narrowed pods may come here."
    )
    gone_vendors = models.JSONField(
        default=list, blank=True, help_text="Vendors whose plugin is gone (allocatable 0 and stale)."
    )
    pair_scores = models.JSONField(
        default=list, blank=True, help_text="[[uuid, uuid, score], …] from the topology annotation."
    )
    accounting_unknown = models.CharField(
        max_length=400,
        blank=True,
        help_text="Why this node takes no new device pods: a live pod on it that cannot be decoded.",
    )
    fingerprint = models.CharField(
        max_length=64, blank=True, help_text="Hash of everything observed that was last written."
    )
    problem = models.CharField(max_length=400, blank=True, help_text="Why its register annotation could not be used.")

    class Meta:
        ordering = ("cluster", "name")
        constraints = (models.UniqueConstraint(fields=("cluster", "name"), name="node_once_per_cluster"),)

    def __str__(self) -> str:
        return self.name


class NodeLiveness(models.Model):
    """When each sign of life of a node's plugin was last seen. Outside the ledger: stamps are not decisions."""

    node = models.OneToOneField(Node, on_delete=models.CASCADE, related_name="liveness")
    allocatable = models.JSONField(
        default=dict, blank=True, help_text="Resource name → count, of the managed resources."
    )
    marks = models.JSONField(
        default=dict, blank=True, help_text="What the plugins last wrote on the node: a change is a sign of life."
    )
    lease_renewed = models.CharField(
        max_length=40, blank=True, help_text="renewTime of the agent's Lease as last read; its clock is not ours."
    )
    handshake_at = models.DateTimeField(
        null=True, blank=True, help_text="Database time when a plugin's handshake or registration was seen to change."
    )
    lease_at = models.DateTimeField(
        null=True, blank=True, help_text="Database time when the agent's Lease was seen renewed."
    )
    report_at = models.DateTimeField(null=True, blank=True)
    first_seen_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("node",)
        verbose_name_plural = "node liveness"

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

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="devices")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="devices")
    vendor = models.CharField(max_length=32)
    uuid = models.CharField(max_length=128)
    index = models.PositiveIntegerField(default=0)
    model = models.CharField(max_length=128, blank=True)
    memory_mib = models.PositiveBigIntegerField(
        verbose_name="memory (MiB)", help_text="Registered memory, after the plugin's scaling."
    )
    core_percent = models.PositiveIntegerField(verbose_name="cores (%)")
    slots = models.PositiveIntegerField(help_text="Greatest number of sharers.")
    numa = models.IntegerField(default=0)
    mode = models.CharField(max_length=32, blank=True)
    healthy = models.BooleanField(default=True)
    mig_profiles = models.JSONField(default=list, blank=True)
    custom = models.JSONField(
        default=dict, blank=True, help_text="What the plugin says of the device beyond amounts, such as its topology."
    )
    registered = models.BooleanField(default=True, help_text="Present in its node's latest registration.")
    conflict = models.BooleanField(default=False, help_text="The same uuid is live on another node: usable on neither.")
    cordoned_on_node = models.BooleanField(
        default=False, help_text="Listed in the node annotation hami.io/device-cordon."
    )

    cordoned = models.BooleanField(default=False, help_text="Place no new shares here.")
    reserved_mib = models.PositiveBigIntegerField(
        default=0,
        verbose_name="reserved (MiB)",
        help_text="Kept back from pods for good, for example for the driver. MiB, not bytes.",
    )
    note = models.CharField(max_length=400, blank=True)

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

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="holds")
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="holds")
    memory_mib = models.PositiveBigIntegerField(default=0, verbose_name="memory (MiB)")
    core_percent = models.PositiveIntegerField(default=0, verbose_name="cores (%)")
    slots = models.PositiveIntegerField(default=0)
    reason = models.TextField(help_text="Why, for whoever finds it.")
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="Ends by itself then. Empty: until somebody ends it."
    )
    in_force = models.BooleanField(default=True, editable=False)
    created_by = models.CharField(max_length=150, blank=True, editable=False)

    history = HistoricalRecords(history_change_reason_field=models.TextField(blank=False))

    class Meta:
        ordering = ("cluster", "device", "id")

    def __str__(self) -> str:
        return f"hold of {self.memory_mib} MiB on {self.device}"
