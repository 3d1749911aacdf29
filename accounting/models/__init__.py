"""Every model of the ledger, one module per noun."""

from accounting.models.budgets import Budget
from accounting.models.clusters import Clock, Cluster, Journal, ProcessLease
from accounting.models.inventory import Device, Hold, Node, NodeLiveness
from accounting.models.people import ApiToken, IdempotencyKey, LoginLink, Role, User
from accounting.models.pods import NodeLock, Pod, PodState, Refusal, Share
from accounting.models.readings import DeviceReading, Examination
from accounting.models.records import AccessRecord, DeniedAsk, Finding, Notice, Trace
from accounting.models.replays import InputHour, InputPiece
from accounting.models.tenancy import Mode, Namespace, NativeQuota, Quota, Tenant
from accounting.models.usage import LateUsage, Measurement, Price, Registration, UsageHour, UsageInterval

__all__ = [
    "AccessRecord",
    "ApiToken",
    "Budget",
    "Clock",
    "Cluster",
    "DeniedAsk",
    "Device",
    "DeviceReading",
    "Examination",
    "Finding",
    "Hold",
    "IdempotencyKey",
    "InputHour",
    "InputPiece",
    "Journal",
    "LateUsage",
    "LoginLink",
    "Measurement",
    "Mode",
    "Namespace",
    "NativeQuota",
    "Node",
    "NodeLiveness",
    "NodeLock",
    "Notice",
    "Pod",
    "PodState",
    "Price",
    "ProcessLease",
    "Quota",
    "Refusal",
    "Registration",
    "Role",
    "Share",
    "Tenant",
    "Trace",
    "UsageHour",
    "UsageInterval",
    "User",
]
