"""The ledger's rows as plain values: what a View is folded from.

One class per kind of row. A row knows what follows from itself alone (what a pod holds); what follows from several is
`view`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from hami_platform.domain import lifecycle, quota
from hami_platform.domain.devices import Device, DeviceKey, Held, Share
from hami_platform.domain.nodes import PairScores
from hami_platform.domain.quota import Charge, Rule
from hami_platform.domain.requests import PodRequest

HOLDS_CLAIM: Final = frozenset({"claimed"})
HOLDS_PEAK: Final = frozenset({"reserved", "binding"})
HOLDS_BY_STATUS: Final = frozenset({"bound", "running", "releasing"})


@dataclass(frozen=True, slots=True)
class ClockRow:
    """Where the View stands in the ledger's order."""

    revision: int = 0
    tag: str = ""
    incarnation: str = ""
    compared: str = ""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node with its usable and unusable devices, as rows say. labelled: vendors whose label it carries."""

    name: str
    devices: tuple[Device, ...] = ()
    retired: bool = False
    agent: str = ""
    accounting_unknown: str = ""
    pair_scores: PairScores = field(default_factory=dict)
    labelled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HoldRow:
    """A person's reservation on one device; not in force, it holds nothing."""

    node: str
    key: DeviceKey
    held: Held
    in_force: bool = True


@dataclass(frozen=True)
class PodRow:
    """A pod or claim. What it holds follows from its state, shares and facts."""

    id: int
    uid: str
    claim_id: str
    namespace: str
    name: str
    state: str
    request: PodRequest
    node: str = ""
    shares: tuple[Share, ...] = ()
    aligned: bool = True
    facts: lifecycle.PodFacts | None = None
    claim_charges: tuple[Charge, ...] = ()
    priority: int = 0
    created_at_s: float = 0.0
    gated: bool = False
    unmanaged: bool = False
    suspended: bool = False
    resource_version: int = 0
    owner: str = ""
    expired_node: str = ""
    bind_attempt: int = 0
    lease_until_s: float | None = None
    state_at_s: float | None = None

    @cached_property
    def held(self) -> Mapping[DeviceKey, Held]:
        """What the pod holds on each device of its node now, with what it says to each vendor's strategy."""
        found, wanted = self._amounts, self.request.constraints
        if not wanted.notes and not wanted.by_vendor:
            return found
        return {key: replace(one, notes=wanted.of(key[0]).notes) for key, one in found.items()}

    @property
    def _amounts(self) -> Mapping[DeviceKey, Held]:
        if self.state in HOLDS_PEAK:
            return lifecycle.peak(self.shares, self.request.containers, aligned=self.aligned)
        if self.state in HOLDS_BY_STATUS and self.facts is not None:
            return lifecycle.held(self.shares, self.request.containers, self.facts, aligned=self.aligned)
        if self.state in HOLDS_BY_STATUS:
            return lifecycle.peak(self.shares, self.request.containers, aligned=self.aligned)
        return {}

    @cached_property
    def charges(self) -> tuple[Charge, ...]:
        """What the pod takes of its namespace's limits: its claim, or the sum over devices of what it holds (D2)."""
        if self.state in HOLDS_CLAIM:
            return self.claim_charges
        return quota.charges_of(self.held, {share.key: share.model for share in self.shares})

    @property
    def unknown_use(self) -> bool:
        """Whether the pod is on its node and uses devices there of which nobody knows which: it came past us, or what
        it was given cannot be decoded."""
        return self.unmanaged and not self.shares and self.state in HOLDS_BY_STATUS


@dataclass(frozen=True, slots=True)
class NamespaceRow:
    """A namespace: its tenant (by id) and what happens when a limit is exceeded."""

    name: str
    tenant: int | None = None
    mode: str = "enforce"


@dataclass(frozen=True, slots=True)
class TenantRow:
    """One node of the tenant tree."""

    id: int
    name: str
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """Limits of a namespace (by name) or a tenant (by id)."""

    id: int
    rule: Rule
    namespace: str | None = None
    tenant: int | None = None
    in_force: bool = True


@dataclass(frozen=True, slots=True)
class NativeRow:
    """One limit of one Kubernetes ResourceQuota object."""

    namespace: str
    vendor: str
    resource: str
    limit: int
    object_name: str = ""


@dataclass(frozen=True, slots=True)
class LockRow:
    """Who may allocate on a node."""

    node: str
    pod_uid: str
    stale: bool = False
    mode: str = "row"


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows to put in place, by key; None takes the row away."""

    clock: ClockRow | None = None
    nodes: Mapping[str, NodeRow | None] = field(default_factory=dict)
    holds: Mapping[int, HoldRow | None] = field(default_factory=dict)
    pods: Mapping[int, PodRow | None] = field(default_factory=dict)
    namespaces: Mapping[str, NamespaceRow | None] = field(default_factory=dict)
    tenants: Mapping[int, TenantRow | None] = field(default_factory=dict)
    quotas: Mapping[int, QuotaRow | None] = field(default_factory=dict)
    natives: Mapping[int, NativeRow | None] = field(default_factory=dict)
    locks: Mapping[str, LockRow | None] = field(default_factory=dict)
