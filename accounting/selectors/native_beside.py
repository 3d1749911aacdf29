"""Kubernetes' own ResourceQuotas beside this platform's limits: which of the two refuses first.

Kubernetes counts what containers ask for, each once, however many devices they ask for (source: HAMi issue 893); here
every share counts. Both bind, so the lower one is what a namespace can use.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from accounting.selectors.access import Reach
from hami_platform.domain.view import View

ONLY_NATIVE, SAME, LOWER, HIGHER = "only", "same", "lower", "higher"
UNITS = {"memory_mib": "MiB", "core_percent": "%"}


@dataclass(frozen=True, slots=True)
class Beside:
    """One limit of a ResourceQuota and the least of ours that counts the same devices; ours None: there is none."""

    namespace: str
    object_name: str
    vendor: str
    resource: str
    native: int
    ours: int | None = None
    rule: str = ""

    @property
    def flag(self) -> str:
        """How the native limit stands to ours."""
        if self.ours is None:
            return ONLY_NATIVE
        return SAME if self.native == self.ours else LOWER if self.native < self.ours else HIGHER

    @property
    def unit(self) -> str:
        """What both numbers count."""
        return UNITS[self.resource]

    @property
    def words(self) -> str:
        """The flag as a sentence."""
        told = {
            ONLY_NATIVE: _("no limit of ours: only the ResourceQuota binds"),
            SAME: _("the same as ours"),
            LOWER: _("lower than ours: what is between the two cannot be used"),
            HIGHER: _("higher than ours: ours binds first"),
        }
        return str(told[self.flag])


def beside(view: View, namespace: str, vendor: str, resource: str, native: int, object_name: str = "") -> Beside:
    """One native limit beside the least of ours on the namespace that counts all of the vendor's devices."""
    found = [
        (limit, row.rule.name)
        for row in view.quotas.values()
        if row.in_force
        and row.namespace == namespace
        and row.rule.selector.vendor in {"", vendor}
        and not row.rule.selector.model_pattern
        and (limit := getattr(row.rule.limits, resource)) is not None
    ]
    ours, rule = min(found, default=(None, ""))
    return Beside(namespace, object_name, vendor, resource, native, ours, rule)


def all_beside(view: View, reach: Reach, *, namespace: str = "") -> list[Beside]:
    """Every native limit that the reader may see, those that differ from ours first."""
    found = [
        beside(view, row.namespace, row.vendor, row.resource, row.limit, row.object_name)
        for row in view.natives.values()
        if reach.sees(row.namespace) and (not namespace or row.namespace == namespace)
    ]
    return sorted(found, key=lambda one: (one.flag == SAME, one.namespace, one.object_name, one.resource, one.vendor))
