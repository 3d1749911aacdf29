"""Every reason word in plain words, for people: what stands in the way, not what to do about it."""

from __future__ import annotations

from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from hami_platform.domain.reasons import Reason

WORDS: Final[dict[str, Promise]] = {
    Reason.CARD_NOT_HEALTH.value: _("device unhealthy"),
    Reason.CARD_CORDONED.value: _("device cordoned"),
    Reason.CARD_TYPE_MISMATCH.value: _("another model or sharing mode is wanted"),
    Reason.CARD_UUID_MISMATCH.value: _("other devices are named by uuid"),
    Reason.CARD_TIME_SLICING_EXHAUSTED.value: _("all shares of the device are taken"),
    Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT.value: _("the whole device is wanted, and it has a holder"),
    Reason.RESOURCE_QUOTA_NOT_FIT.value: _("a limit of the namespace or tenant"),
    Reason.CARD_INSUFFICIENT_MEMORY.value: _("not enough memory free"),
    Reason.CARD_INSUFFICIENT_CORE.value: _("not enough cores free"),
    Reason.CARD_COMPUTE_UNITS_EXHAUSTED.value: _("all cores of the device are taken"),
    Reason.CARD_MIG_TOPOLOGY_INFEASIBLE.value: _("no free place for a MIG instance"),
    Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE.value: _("the vendor's rules find no set of devices"),
    Reason.NUMA_NOT_FIT.value: _("not enough devices on one NUMA node"),
    Reason.NODE_INSUFFICIENT_DEVICE.value: _("the node has too few such devices"),
    Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST.value: _("too few devices of the node would do"),
    Reason.NODE_UNREGISTERED.value: _("the node has registered no devices"),
    Reason.MODE_NOT_FIT.value: _("another sharing mode is wanted"),
    Reason.CARD_UNHEALTHY.value: _("device unhealthy"),
    Reason.CARD_QOS_POLICY_MISMATCH.value: _("the device is shared under another policy"),
    Reason.CARD_APP_CLASS_MISMATCH.value: _("the device serves another class of applications"),
    Reason.NODE_LOCKED.value: _("the node's lock is too old"),
    Reason.NODE_ACCOUNTING_UNKNOWN.value: _("the node has holders that cannot be read"),
    Reason.NODE_PLUGIN_GONE.value: _("the node's device plugin is gone"),
}

STAGES: Final[dict[str, Promise]] = {
    "webhook": _("Admission"),
    "quota": _("Quota"),
    "filter": _("Devices"),
    "bind": _("Bind"),
    "allocate": _("Allocation"),
    "running": _("Running"),
}

VERDICTS: Final[dict[str, tuple[str, Promise]]] = {
    "fits": ("ok", _("fits now")),
    "blocked_by_quota": ("warn", _("blocked by quota")),
    "no_fit_now": ("warn", _("no room now")),
    "never_fits": ("bad", _("can never fit here")),
    "waiting_for_bind": ("info", _("waits to be bound")),
    "not_ours": ("warn", _("not placed by this platform")),
    "healthy": ("ok", _("has its devices")),
}
"""Verdict → (how the chip looks, words)."""

ROLES: Final[dict[str, Promise]] = {
    "owner": _("the pod's owner"),
    "tenant admin": _("an admin of its namespace or tenant"),
    "operator": _("an operator"),
}


def words(code: str) -> Promise | str:
    """Plain words for a reason; empty for a word that is not one."""
    return WORDS.get(code, "")
