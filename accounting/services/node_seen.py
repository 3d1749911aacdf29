"""A node object of the API server as the services need it: its registered devices, decoded, and the signs of life it
carries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from accounting.services import seen
from hami_platform.domain import devices, units
from hami_platform.domain.errors import DomainError
from hami_platform.domain.nodes import PairScores
from hami_platform.domain.vendors.base import LABEL_TRUE, DeviceConfig, NodeSource
from hami_platform.domain.wire import pair_scores

AGENT_LABEL = "platform.hami.io/agent"
LIMITS_LABEL = "platform.hami.io/limits"
CORDON = "hami.io/device-cordon"
LOCK = "hami.io/mutex.lock"
LOCK_MAX = 600
"""What the ledger keeps of a lock's text; a real one is a time and a pod's name."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """One observed node.

    unreadable: vendors whose annotation could not be decoded; their devices stay as they were. labelled: vendors whose
    label says that they have registered here. registrations: vendor → hash of what its plugin registers.
    """

    name: str
    uid: str = ""
    unschedulable: bool = False
    agent: str = ""
    limits: str = ""
    devices: tuple[devices.Device, ...] = ()
    cordoned: frozenset[str] = frozenset()
    pair_scores: PairScores = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    handshakes: Mapping[str, str] = field(default_factory=dict)
    registrations: Mapping[str, str] = field(default_factory=dict)
    labelled: frozenset[str] = frozenset()
    unreadable: tuple[str, ...] = ()
    problem: str = ""
    lock: str = ""
    resource_version: str = ""
    _prints: dict[tuple[str, ...], str] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Fingerprints that were asked for: a tick asks for the same again."""

    @property
    def vendors(self) -> frozenset[str]:
        """Words of the vendors whose plugin has ever registered here."""
        return frozenset({*(one.vendor for one in self.devices), *self.unreadable})

    @property
    def registers(self) -> bool:
        """Whether any vendor's plugin has ever registered here."""
        return bool(self.devices or self.unreadable)

    def fingerprint(self, gone: Sequence[str]) -> str:
        """Hash of all that `nodes_observe` writes. HAMi's plugin registers its devices in an order of chance."""
        key = tuple(sorted(gone))
        if key not in self._prints:
            self._prints[key] = self._fingerprint(key)
        return self._prints[key]

    def _fingerprint(self, gone: Sequence[str]) -> str:
        content = [
            self.uid,
            self.unschedulable,
            self.agent,
            self.limits,
            sorted(self.labelled),
            sorted(repr(one) for one in self.devices),
            sorted(self.cordoned),
            sorted((*pair, score) for pair, score in self.pair_scores.items()),
            self.unreadable,
            self.problem,
            sorted(gone),
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def from_object(node: Mapping[str, Any], config: DeviceConfig) -> NodeSeen:
    """Read a node object. Never raises for what a plugin may have written: see `problem`."""
    meta, status = node.get("metadata") or {}, node.get("status") or {}
    annotations, labels = seen.storable(meta.get("annotations") or {}), meta.get("labels") or {}
    found: list[devices.Device] = []
    unreadable, problems, scores = [], [], dict[tuple[str, str], int]()
    source = NodeSource(meta.get("name") or "", annotations, labels, _capacity(status))
    for vendor in config.vendors:
        try:
            found += vendor.registered(source)
            if vendor.pair_scores_key in annotations:
                scores |= pair_scores.decode(annotations[vendor.pair_scores_key])
        except DomainError as fault:
            unreadable.append(vendor.word)
            problems.append(f"{vendor.word}: {fault}")
    return NodeSeen(
        name=meta.get("name") or "",
        uid=meta.get("uid") or "",
        agent=labels.get(AGENT_LABEL, ""),
        limits=labels.get(LIMITS_LABEL, ""),
        unschedulable=bool((node.get("spec") or {}).get("unschedulable")),
        devices=tuple(one for one in found if one.vendor not in unreadable),
        cordoned=frozenset(item.strip() for item in annotations.get(CORDON, "").split(",") if item.strip()),
        pair_scores=scores,
        allocatable=_allocatable(status, config),
        handshakes={v.word: annotations[v.handshake_key] for v in config.vendors if v.handshake_key in annotations},
        registrations={
            v.word: hashlib.sha256(annotations[v.register_key].encode()).hexdigest()[:16]
            for v in config.vendors
            if v.register_key in annotations
        },
        labelled=frozenset(v.word for v in config.vendors if labels.get(v.node_label) == LABEL_TRUE),
        unreadable=tuple(unreadable),
        problem="; ".join(problems),
        lock=annotations.get(LOCK, "")[:LOCK_MAX],
        resource_version=str(meta.get("resourceVersion") or ""),
    )


def _capacity(status: Mapping[str, Any]) -> dict[str, int]:
    """Resource name → whole number; what is no number is left out."""
    found = {}
    for name, amount in (status.get("capacity") or {}).items():
        try:
            found[name] = units.whole(str(amount))
        except DomainError:
            continue
    return found


def _allocatable(status: Mapping[str, Any], config: DeviceConfig) -> dict[str, int]:
    """Vendor word → kubelet's count of the vendor's devices; absent reads as 0."""
    counts = status.get("allocatable") or {}
    return {vendor.word: _count(counts.get(vendor.resources.count, 0)) for vendor in config.vendors}


def _count(quantity: object) -> int:
    try:
        return units.whole(str(quantity))
    except DomainError:
        return 0
