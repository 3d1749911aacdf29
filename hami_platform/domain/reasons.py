"""Why a device, a node or a pod was refused: the words on the wire, and how often each occurred."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Reason(StrEnum):
    """Reason words. The first block is HAMi's (v2.10.0), spelled as on its wire; the second is ours."""

    CARD_NOT_HEALTH = "CardNotHealth"
    CARD_CORDONED = "CardCordoned"
    CARD_TYPE_MISMATCH = "CardTypeMismatch"
    CARD_UUID_MISMATCH = "CardUuidMismatch"
    CARD_TIME_SLICING_EXHAUSTED = "CardTimeSlicingExhausted"
    EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT = "ExclusiveDeviceAllocateConflict"
    RESOURCE_QUOTA_NOT_FIT = "ResourceQuotaNotFit"
    CARD_INSUFFICIENT_MEMORY = "CardInsufficientMemory"
    CARD_INSUFFICIENT_CORE = "CardInsufficientCore"
    CARD_COMPUTE_UNITS_EXHAUSTED = "CardComputeUnitsExhausted"
    CARD_MIG_TOPOLOGY_INFEASIBLE = "CardMigTopologyInfeasible"
    CARD_NOT_FOUND_CUSTOM_FILTER_RULE = "CardNotFoundCustomFilterRule"
    NUMA_NOT_FIT = "NumaNotFit"
    NODE_INSUFFICIENT_DEVICE = "NodeInsufficientDevice"
    ALLOCATED_CARDS_INSUFFICIENT_REQUEST = "AllocatedCardsInsufficientRequest"
    NODE_UNREGISTERED = "node unregistered"
    MODE_NOT_FIT = "ModeNotFit"
    CARD_UNHEALTHY = "CardUnhealthy"
    CARD_QOS_POLICY_MISMATCH = "CardQosPolicyMismatch"
    CARD_APP_CLASS_MISMATCH = "CardAppClassMismatch"

    NODE_LOCKED = "NodeLocked"
    NODE_ACCOUNTING_UNKNOWN = "NodeAccountingUnknown"
    NODE_PLUGIN_GONE = "NodePluginGone"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one node was refused.

    counts: how many device visits each reason rejected; candidates: devices of the vendor that were looked at.
    whole: a reason that concerns the node as such; then counts is empty.
    """

    counts: Mapping[Reason, int] = field(default_factory=dict)
    candidates: int = 0
    whole: Reason | None = None

    def text(self) -> str:
        """HAMi's list: `1/12 CardInsufficientCore, 2/12 …` sorted as text, or the bare word of the node."""
        if self.whole is not None:
            return self.whole.value
        return ", ".join(sorted(f"{n}/{self.candidates} {reason.value}" for reason, n in self.counts.items()))

    def dominant(self) -> Reason:
        """The one word that stands for this refusal: the most frequent, ties by name."""
        if self.whole is not None:
            return self.whole
        return min(self.counts, key=lambda reason: (-self.counts[reason], reason.value))
