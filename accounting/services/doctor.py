"""Looks whether the platform can work in this cluster, and says how to mend what stands in the way. Writes nothing.

Each check is a function of what was read; what could not be read is said where it is needed. Must not know: how a check
is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from accounting.services import doctor_cluster, doctor_platform
from accounting.services.doctor_cluster import BAD, GOOD, ODD, UNKNOWN, Finding, Said
from hami_platform.domain.sentences import phrase
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors


@dataclass(frozen=True, slots=True)
class Check:
    """What one look came to. advice: the command that mends it, or what to do; empty where nothing need be done."""

    name: str
    verdict: str
    said: Said
    advice: Said = ""

    @property
    def text(self) -> str:
        """What was found, in English."""
        return str(self.said)

    @property
    def mend(self) -> str:
        """What mends it, in English."""
        return str(self.advice)

    def told(self) -> dict[str, str]:
        """For scripts."""
        return {"name": self.name, "verdict": self.verdict, "text": self.text, "mend": self.mend}


@dataclass(slots=True)
class Facts:
    """What was read of the cluster. unread: what could not be, with why."""

    config: DeviceConfig
    now_s: float
    version: Mapping[str, Any] = field(default_factory=dict)
    nodes: Sequence[Mapping[str, Any]] = ()
    pods: Sequence[Mapping[str, Any]] = ()
    quotas: Sequence[Mapping[str, Any]] = ()
    webhooks: Sequence[Mapping[str, Any]] = ()
    deployments: Sequence[Mapping[str, Any]] = ()
    daemon_sets: Sequence[Mapping[str, Any]] = ()
    node_leases: Sequence[Mapping[str, Any]] = ()
    allowed: Mapping[str, bool] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)


CLUSTER: Mapping[str, Callable[[Facts], Finding]] = {
    "API server": doctor_cluster.reachable,
    "server version": doctor_cluster.version,
    "rights": doctor_cluster.rights,
    "GPU nodes": doctor_cluster.gpu_nodes,
    "HAMi beside us": doctor_cluster.hami,
    "register annotations": doctor_cluster.registers,
    "formats of registers": doctor_cluster.generations,
    "vendors": doctor_cluster.vendors,
    "webhook": doctor_cluster.webhook,
    "webhook order": doctor_cluster.webhook_order,
    "scheduler name": doctor_cluster.scheduler_names,
    "device plugins": doctor_cluster.plugins,
    "native quotas": doctor_cluster.native_quotas,
    "pods past the webhook": doctor_cluster.bypassed,
    "node clocks": doctor_cluster.clocks,
    "node locks": doctor_cluster.locks,
}
PLATFORM: Mapping[str, Callable[[], Finding]] = {
    "certificate authority": doctor_platform.authority,
    "extender": doctor_platform.extender,
    "database": doctor_platform.database,
    "Redis": doctor_platform.redis,
    "watcher": doctor_platform.watcher,
    "reconciliation": doctor_platform.reconciliation,
    "Prometheus": doctor_platform.prometheus,
}


Told = Callable[[str, int], None]
"""Hears what is looked at now, and how many looks are done."""


def examine(
    api: ports.Api, *, config: DeviceConfig, now_s: float, told: Told = lambda _step, _done: None
) -> list[Check]:
    """Every check, in the order in which one depends on another. Never raises for what is away."""
    facts = read(api, config=config, now_s=now_s, told=told)
    found = [Check(name, *_tried(lambda look=look: look(facts))) for name, look in CLUSTER.items()]  # type: ignore[misc]
    for done, (name, look) in enumerate(PLATFORM.items(), len(_READ) + 1 + len(CLUSTER)):
        told(name, done)
        found.append(Check(name, *_tried(look)))
    return found


def _tried(look: Callable[[], Finding]) -> Finding:
    """A check that breaks on what it read is a finding, too: nobody may lose the others for it."""
    try:
        return look()
    except Exception as fault:  # noqa: BLE001
        return UNKNOWN, phrase("the check failed: %(why)s", why=f"{type(fault).__name__}: {fault}"), ""


def read(api: ports.Api, *, config: DeviceConfig, now_s: float, told: Told = lambda _step, _done: None) -> Facts:
    """Ask the API server for all that the checks look at: reads, and questions about one's own rights."""
    facts = Facts(config, now_s)
    for done, (name, path) in enumerate(_READ.items()):
        told(name.replace("_", " "), done)
        try:
            answer: dict[str, Any] = api.send(calls.KubeCall("GET", path, dict))
        except errors.KubeError as fault:
            facts.unread[name] = str(fault)
        else:
            setattr(facts, name, answer if name == "version" else answer.get("items") or ())
    told("rights", len(_READ))
    facts.allowed = _allowed(api, facts)
    return facts


_READ = {
    "version": "/version",
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
    "quotas": "/api/v1/resourcequotas",
    "webhooks": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "deployments": "/apis/apps/v1/deployments",
    "daemon_sets": "/apis/apps/v1/daemonsets",
    "node_leases": "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
}

LOOKS: Final = len(_READ) + 1 + len(CLUSTER) + len(PLATFORM)
"""Reads, the question about rights, and checks."""

_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def _allowed(api: ports.Api, facts: Facts) -> dict[str, bool]:
    """May this account do what worker and watcher do? A review is a question: nothing is stored."""
    found = {}
    for verb, resource, subresource in doctor_cluster.NEEDED:
        asked = {"verb": verb, "resource": resource} | ({"subresource": subresource} if subresource else {})
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        try:
            answer: dict[str, Any] = api.send(calls.KubeCall("POST", _REVIEW, dict, (), body))
        except errors.KubeError as fault:
            facts.unread["rights"] = str(fault)
            return {}
        found[" ".join(filter(None, (verb, resource, subresource)))] = bool(answer.get("status", {}).get("allowed"))
    return found


def worst(found: Iterable[Check]) -> str:
    """The verdict on the whole."""
    verdicts = {one.verdict for one in found}
    return next((one for one in (BAD, ODD, UNKNOWN) if one in verdicts), GOOD)
