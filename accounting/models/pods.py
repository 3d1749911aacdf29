"""Pods that ask for devices, their shares, and the lock of a node that allocates."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from accounting.models.base import LedgerModel
from accounting.models.clusters import Cluster


class PodState(models.TextChoices):
    """Where a pod is between asking and ending. Only services move it."""

    WAITING = "waiting", "waiting: seen, no claim, holds nothing"
    CLAIMED = "claimed", "claimed: admitted, quota held, no device yet"
    RESERVED = "reserved", "reserved: device chosen, not bound"
    BINDING = "binding", "binding: the Binding is being sent"
    BOUND = "bound", "bound: on its node, no container has started"
    RUNNING = "running", "running"
    RELEASING = "releasing", "releasing: being deleted, still counted"
    ENDED = "ended", "ended: holds nothing"


class Pod(LedgerModel):
    """A pod, or the claim of a pod not yet seen, with all that its accounting needs. `uid` identifies; names never
    do."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="pods")
    claim_id = models.CharField(
        max_length=64, blank=True, help_text="uid of the admission request that claimed; empty: none."
    )
    uid = models.CharField(max_length=64, blank=True, help_text="Empty until the pod object was seen.")
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253, blank=True, help_text="Empty for a claim made with generateName.")
    owner = models.CharField(max_length=320, blank=True, help_text="Kind/name of the controller.")
    state = models.CharField(max_length=9, choices=PodState, default=PodState.WAITING)
    request = models.JSONField(default=dict, help_text="The parsed request (domain.wire.pod_request).")
    claim_charges = models.JSONField(
        default=list,
        blank=True,
        help_text="Held before a device is chosen: "
        "[[vendor, devices, memory_mib, core_percent, largest_share_mib], …].",
    )
    node = models.CharField(max_length=253, blank=True)
    lease_until = models.DateTimeField(
        null=True, blank=True, help_text="Database time when an unseen claim or an unbound reservation falls."
    )
    wire = models.JSONField(default=dict, blank=True, help_text="Exact annotation texts written, or read at import.")
    aligned = models.BooleanField(
        default=True, help_text="Whether share rows are known to match containers; if not, all count as app."
    )
    facts = models.JSONField(default=dict, blank=True, help_text="Phase, deletion and container statuses as last seen.")
    resource_version = models.BigIntegerField(
        default=0, help_text="Of the pod object as last seen; older events are ignored."
    )
    priority = models.IntegerField(default=0)
    created_at = models.DateTimeField(
        null=True, blank=True, help_text="creationTimestamp of the pod object, or when claimed."
    )
    gated = models.BooleanField(default=False, help_text="Carries our scheduling gate.")
    unmanaged = models.BooleanField(default=False, help_text="Came past the webhook; counted, never placed by us.")
    suspended = models.BooleanField(
        default=False, help_text="Its claim was given up because it can never fit as the cluster is."
    )
    bind_attempt = models.PositiveIntegerField(default=0)
    lock_mode = models.CharField(max_length=10, blank=True, help_text="row | annotation: fixed per bind.")
    expired_node = models.CharField(
        max_length=253,
        blank=True,
        help_text="Node of a reservation whose lease ran out: /bind may still take it again if it is free.",
    )
    state_at = models.DateTimeField(null=True, blank=True, help_text="When the state last changed.")
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("cluster", "namespace", "name", "id")
        constraints = (
            models.UniqueConstraint(fields=("cluster", "uid"), condition=~Q(uid=""), name="pod_once_per_uid"),
            models.UniqueConstraint(
                fields=("cluster", "claim_id"), condition=~Q(claim_id=""), name="pod_once_per_claim"
            ),
        )
        indexes = (
            models.Index(fields=("cluster", "state"), name="pod_by_state"),
            models.Index(fields=("cluster", "namespace", "name"), name="pod_by_name"),
            models.Index(fields=("cluster", "node"), name="pod_by_node"),
        )

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name or self.claim_id}"


class Refusal(models.Model):
    """The last time `/filter` refused a pod, and the last time we woke it. Outside the ledger: losing one only costs
    a retry."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    pod_uid = models.CharField(max_length=64)
    revision = models.BigIntegerField(default=0, help_text="Ledger revision the refusal was decided at.")
    at = models.DateTimeField()
    since = models.DateTimeField(help_text="First refusal without a placement between.")
    reason = models.CharField(max_length=64, blank=True, help_text="The dominant reason word.")
    summary = models.CharField(max_length=1000, blank=True)
    never_fits = models.BooleanField(default=False, help_text="Not even on the empty cluster, as registered.")
    never_fits_since = models.DateTimeField(null=True, blank=True, help_text="Since when that has been so.")
    candidates = models.JSONField(
        null=True, blank=True, help_text="The nodes it was about, where kube-scheduler showed all that it could use."
    )
    woken_revision = models.BigIntegerField(default=0)
    woken_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("cluster", "pod_uid")
        constraints = (models.UniqueConstraint(fields=("cluster", "pod_uid"), name="refusal_once_per_pod"),)

    def __str__(self) -> str:
        return f"{self.pod_uid}: {self.summary}"


class Share(LedgerModel):
    """What one container was given on one device: the source of every figure of use. What is held of it now follows
    from the pod's facts."""

    pod = models.ForeignKey(Pod, on_delete=models.CASCADE, related_name="shares")
    container_index = models.PositiveSmallIntegerField(help_text="Init containers first, then apps.")
    container = models.CharField(max_length=253)
    kind = models.CharField(max_length=8, help_text="init | sidecar | app")
    vendor = models.CharField(max_length=32)
    uuid = models.CharField(max_length=128)
    model = models.CharField(max_length=128, blank=True)
    memory_mib = models.PositiveBigIntegerField()
    core_percent = models.PositiveIntegerField()
    mig_profile = models.CharField(max_length=64, blank=True)
    mig_start = models.PositiveSmallIntegerField(null=True, blank=True)
    mig_size = models.PositiveSmallIntegerField(null=True, blank=True)

    class Meta:
        ordering = ("pod", "container_index", "id")
        indexes = (models.Index(fields=("vendor", "uuid"), name="share_by_device"),)

    def __str__(self) -> str:
        return f"{self.memory_mib} MiB of {self.uuid} for {self.container}"


class NodeLock(LedgerModel):
    """Who may allocate on a node now. For annotation locks: the value seen, and when we first saw it."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="node_locks")
    node = models.CharField(max_length=253)
    pod_uid = models.CharField(max_length=64, blank=True, help_text="Empty: somebody else's annotation lock.")
    mode = models.CharField(max_length=10, default="row", help_text="row | annotation")
    value = models.CharField(max_length=600, blank=True, help_text="Text of hami.io/mutex.lock, for annotation locks.")
    first_seen_at = models.DateTimeField(help_text="Ages count from here, never from the text.")
    stale = models.BooleanField(default=False, help_text="Older than 30 s: the node is refused until it falls.")

    class Meta:
        ordering = ("cluster", "node")
        constraints = (models.UniqueConstraint(fields=("cluster", "node"), name="node_lock_once"),)

    def __str__(self) -> str:
        return f"lock of {self.node}"
