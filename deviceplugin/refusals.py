"""Why Allocate refuses: a value with a reason, and a sentence for the pod's status.

kubelet puts the sentence into the pod (`UnexpectedAdmissionError`), so it names what is wrong.
Must not know: gRPC status codes, or who asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hami_platform.kube import objects


class Reason(StrEnum):
    """One word each, also the label of the refusal metric."""

    NO_POD = "NoPodWaits"
    AMBIGUOUS = "SeveralPodsWait"
    UNDECODABLE = "AllocationUndecodable"
    NO_ROW = "NothingReserved"
    COUNT_MISMATCH = "DeviceNumberNotMatched"
    UNKNOWN_DEVICE = "DeviceUnknown"
    MIG = "MigInstanceUnavailable"
    HOST = "HostNotReady"
    API = "ApiServerFailed"
    LOCK = "NodeLockUnusable"
    NUMA = "NumaAlignmentUnmet"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing was handed out. pod: the one that fails by it, where that is certain."""

    reason: Reason
    message: str
    pod: objects.Pod | None = None
