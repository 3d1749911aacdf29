"""Pods that ask for devices, their shares, and the lock of a node that allocates."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounting.models.base import LedgerModel
from accounting.models.clusters import Cluster


class PodState(models.TextChoices):
    """Where a pod is between asking and ending. Only services move it."""

    WAITING = "waiting", _("waiting: seen, no claim, holds nothing")
    CLAIMED = "claimed", _("claimed: admitted, quota held, no device yet")
    RESERVED = "reserved", _("reserved: device chosen, not bound")
    BINDING = "binding", _("binding: the Binding is being sent")
    BOUND = "bound", _("bound: on its node, no container has started")
    RUNNING = "running", _("running")
    RELEASING = "releasing", _("releasing: being deleted, still counted")
    ENDED = "ended", _("ended: holds nothing")


class Pod(LedgerModel):
    """A pod, or the claim of a pod not yet seen, with all that its accounting needs. `uid` identifies; names never
    do."""

    cluster = models.ForeignKey(
        Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, db_index=False, related_name="pods"
    )
    claim_id = models.CharField(
        verbose_name=_("claim id"),
        max_length=64,
        blank=True,
        help_text=_("uid of the admission request that claimed; empty: none."),
    )
    uid = models.CharField(
        verbose_name=_("uid"), max_length=64, blank=True, help_text=_("Empty until the pod object was seen.")
    )
    namespace = models.CharField(verbose_name=_("namespace"), max_length=63)
    name = models.CharField(
        verbose_name=_("name"), max_length=253, blank=True, help_text=_("Empty for a claim made with generateName.")
    )
    owner = models.CharField(
        verbose_name=_("owner"), max_length=320, blank=True, help_text=_("Kind/name of the controller.")
    )
    state = models.CharField(verbose_name=_("state"), max_length=9, choices=PodState, default=PodState.WAITING)
    request = models.JSONField(
        verbose_name=_("request"), default=dict, help_text=_("The parsed request (domain.wire.pod_request).")
    )
    claim_charges = models.JSONField(
        verbose_name=_("claim charges"),
        default=list,
        blank=True,
        help_text=_(
            "Held before a device is chosen: [[vendor, devices, memory_mib, core_percent, largest_share_mib], …]."
        ),
    )
    node = models.CharField(verbose_name=_("node"), max_length=253, blank=True)
    lease_until = models.DateTimeField(
        verbose_name=_("lease until"),
        null=True,
        blank=True,
        help_text=_("Database time when an unseen claim or an unbound reservation falls."),
    )
    wire = models.JSONField(
        verbose_name=_("annotation texts"),
        default=dict,
        blank=True,
        help_text=_("Exact annotation texts written, or read at import."),
    )
    aligned = models.BooleanField(
        verbose_name=_("aligned with containers"),
        default=True,
        help_text=_("Whether share rows are known to match containers; if not, all count as app."),
    )
    facts = models.JSONField(
        verbose_name=_("facts"),
        default=dict,
        blank=True,
        help_text=_("Phase, deletion and container statuses as last seen."),
    )
    resource_version = models.BigIntegerField(
        verbose_name=_("resource version"),
        default=0,
        help_text=_("Of the pod object as last seen; older events are ignored."),
    )
    priority = models.IntegerField(verbose_name=_("priority"), default=0)
    created_at = models.DateTimeField(
        verbose_name=_("created at"),
        null=True,
        blank=True,
        help_text=_("creationTimestamp of the pod object, or when claimed."),
    )
    gated = models.BooleanField(verbose_name=_("gated"), default=False, help_text=_("Carries our scheduling gate."))
    unmanaged = models.BooleanField(
        verbose_name=_("unmanaged"), default=False, help_text=_("Came past the webhook; counted, never placed by us.")
    )
    suspended = models.BooleanField(
        verbose_name=_("suspended"),
        default=False,
        help_text=_("Its claim was given up because it can never fit as the cluster is."),
    )
    bind_attempt = models.PositiveIntegerField(verbose_name=_("bind attempt"), default=0)
    lock_mode = models.CharField(
        verbose_name=_("kind of lock"), max_length=10, blank=True, help_text=_("row | annotation: fixed per bind.")
    )
    expired_node = models.CharField(
        verbose_name=_("node of the expired reservation"),
        max_length=253,
        blank=True,
        help_text=_("Node of a reservation whose lease ran out: /bind may still take it again if it is free."),
    )
    state_at = models.DateTimeField(
        verbose_name=_("in this state since"), null=True, blank=True, help_text=_("When the state last changed.")
    )
    ended_at = models.DateTimeField(verbose_name=_("ended at"), null=True, blank=True)

    class Meta:
        verbose_name = _("pod")
        verbose_name_plural = _("pods")
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

    cluster = models.ForeignKey(
        Cluster, verbose_name=_("cluster"), on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    pod_uid = models.CharField(verbose_name=_("pod uid"), max_length=64)
    revision = models.BigIntegerField(
        verbose_name=_("revision"), default=0, help_text=_("Ledger revision the refusal was decided at.")
    )
    at = models.DateTimeField(verbose_name=_("time"))
    since = models.DateTimeField(verbose_name=_("since"), help_text=_("First refusal without a placement between."))
    reason = models.CharField(
        verbose_name=_("reason"), max_length=64, blank=True, help_text=_("The dominant reason word.")
    )
    summary = models.CharField(verbose_name=_("summary"), max_length=1000, blank=True)
    never_fits = models.BooleanField(
        verbose_name=_("never fits"), default=False, help_text=_("Not even on the empty cluster, as registered.")
    )
    never_fits_since = models.DateTimeField(
        verbose_name=_("never fits since"), null=True, blank=True, help_text=_("Since when that has been so.")
    )
    candidates = models.JSONField(
        verbose_name=_("candidates"),
        null=True,
        blank=True,
        help_text=_("The nodes it was about, where kube-scheduler showed all that it could use."),
    )
    woken_revision = models.BigIntegerField(verbose_name=_("woken revision"), default=0)
    woken_at = models.DateTimeField(verbose_name=_("woken at"), null=True, blank=True)

    class Meta:
        verbose_name = _("refusal")
        verbose_name_plural = _("refusals")
        ordering = ("cluster", "pod_uid")
        constraints = (models.UniqueConstraint(fields=("cluster", "pod_uid"), name="refusal_once_per_pod"),)

    def __str__(self) -> str:
        return f"{self.pod_uid}: {self.summary}"


class Share(LedgerModel):
    """What one container was given on one device: the source of every figure of use. What is held of it now follows
    from the pod's facts."""

    pod = models.ForeignKey(Pod, verbose_name=_("pod"), on_delete=models.CASCADE, related_name="shares")
    container_index = models.PositiveSmallIntegerField(
        verbose_name=_("container index"), help_text=_("Init containers first, then apps.")
    )
    container = models.CharField(verbose_name=_("container"), max_length=253)
    kind = models.CharField(verbose_name=_("kind"), max_length=8, help_text=_("init | sidecar | app"))
    vendor = models.CharField(verbose_name=_("vendor"), max_length=32)
    uuid = models.CharField(verbose_name=_("uuid"), max_length=128)
    model = models.CharField(verbose_name=_("model"), max_length=128, blank=True)
    memory_mib = models.PositiveBigIntegerField(verbose_name=_("memory (MiB)"))
    core_percent = models.PositiveIntegerField(verbose_name=_("cores (%)"))
    mig_profile = models.CharField(verbose_name=_("MIG profile"), max_length=64, blank=True)
    mig_start = models.PositiveSmallIntegerField(verbose_name=_("MIG start"), null=True, blank=True)
    mig_size = models.PositiveSmallIntegerField(verbose_name=_("MIG size"), null=True, blank=True)

    class Meta:
        verbose_name = _("share")
        verbose_name_plural = _("shares")
        ordering = ("pod", "container_index", "id")
        indexes = (models.Index(fields=("vendor", "uuid"), name="share_by_device"),)

    def __str__(self) -> str:
        return f"{self.container} · {self.uuid} · {self.memory_mib} MiB"


class NodeLock(LedgerModel):
    """Who may allocate on a node now. For annotation locks: the value seen, and when we first saw it."""

    cluster = models.ForeignKey(
        Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, db_index=False, related_name="node_locks"
    )
    node = models.CharField(verbose_name=_("node"), max_length=253)
    pod_uid = models.CharField(
        verbose_name=_("pod uid"), max_length=64, blank=True, help_text=_("Empty: somebody else's annotation lock.")
    )
    mode = models.CharField(verbose_name=_("mode"), max_length=10, default="row", help_text=_("row | annotation"))
    value = models.CharField(
        verbose_name=_("value"),
        max_length=600,
        blank=True,
        help_text=_("Text of hami.io/mutex.lock, for annotation locks."),
    )
    first_seen_at = models.DateTimeField(
        verbose_name=_("first seen"), help_text=_("Ages count from here, never from the text.")
    )
    stale = models.BooleanField(
        verbose_name=_("stale"), default=False, help_text=_("Older than 30 s: the node is refused until it falls.")
    )

    class Meta:
        verbose_name = _("node lock")
        verbose_name_plural = _("node locks")
        ordering = ("cluster", "node")
        constraints = (models.UniqueConstraint(fields=("cluster", "node"), name="node_lock_once"),)

    def __str__(self) -> str:
        return self.node
