"""In-tree filters as pure functions of a pod, a node and what is used on it; texts as kube-scheduler words them.

Source: Kubernetes pkg/scheduler/framework/plugins/{nodeunschedulable,tainttoleration,nodeaffinity,noderesources}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hami_platform.simulator.api import quantity, selectors

Obj = dict[str, Any]
Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Turned:
    """Why one node does not do. `final`: no pod's going would change it, so preemption cannot help."""

    reasons: tuple[str, ...]
    final: bool


def amount(name: str, text: object) -> int:
    """Thousandths for CPU, whole numbers for everything else."""
    return quantity.milli(text) if name == "cpu" else quantity.whole(text)


def requests(pod: Obj) -> dict[str, int]:
    """What a pod needs: the larger of the running containers with sidecars and of each init container in its turn."""
    spec = pod["spec"]
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or []:
        own = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, own)
            _raise(peak, sidecars)
        else:
            _raise(peak, _sum(sidecars, own))
    total = dict(sidecars)
    for container in spec.get("containers") or []:
        _add(total, _container_requests(container))
    _raise(total, peak)
    _add(total, {name: amount(name, value) for name, value in (spec.get("overhead") or {}).items()})
    return total


def _container_requests(container: Obj) -> dict[str, int]:
    found = (container.get("resources") or {}).get("requests") or {}
    return {name: amount(name, value) for name, value in found.items()}


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _sum(first: Amounts, second: Amounts) -> dict[str, int]:
    total = dict(first)
    _add(total, second)
    return total


def _raise(peak: dict[str, int], to: Amounts) -> None:
    for name, value in to.items():
        peak[name] = max(peak.get(name, 0), value)


def turned_down(
    pod: Obj, wanted: Amounts, node: Obj, used: Amounts, pods_on_it: int, ignored: frozenset[str]
) -> Turned | None:
    """The first in-tree filter that turns the node down, or None. `ignored` resources are counted by an extender."""
    spec = node.get("spec") or {}
    tolerations = pod["spec"].get("tolerations") or []
    if spec.get("unschedulable") and not _tolerated(_UNSCHEDULABLE, tolerations):
        return Turned(("node(s) were unschedulable",), final=True)
    for taint in spec.get("taints") or []:
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not _tolerated(taint, tolerations):
            return Turned(("node(s) had untolerated taint(s)",), final=True)
    if not _node_wanted(pod["spec"], node):
        return Turned(("node(s) didn't match Pod's node affinity/selector",), final=True)
    return _short(wanted, node, used, pods_on_it, ignored)


_UNSCHEDULABLE: Obj = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def _tolerated(taint: Obj, tolerations: Iterable[Obj]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint.get("key")):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def _node_wanted(spec: Obj, node: Obj) -> bool:
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_term_matches(term, node, labels) for term in required.get("nodeSelectorTerms") or [])


def _term_matches(term: Obj, node: Obj, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    named = {"metadata.name": node["metadata"]["name"]}
    return all(_holds(item, labels) for item in expressions) and all(_holds(item, named) for item in fields)


def _holds(expression: Obj, found: Mapping[str, str]) -> bool:
    operator = expression.get("operator")
    if operator in ("Gt", "Lt"):
        value, bound = found.get(str(expression["key"]), ""), str(expression["values"][0])
        if not (value.lstrip("-").isdigit() and bound.lstrip("-").isdigit()):
            return False
        return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)
    return selectors.from_expression(expression).matches(found)


def _short(wanted: Amounts, node: Obj, used: Amounts, pods_on_it: int, ignored: frozenset[str]) -> Turned | None:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    reasons: list[str] = []
    if pods_on_it + 1 > amount("pods", allocatable.get("pods", "110")):
        reasons.append("Too many pods")
    for name, value in wanted.items():
        if value > 0 and name not in ignored and used.get(name, 0) + value > amount(name, allocatable.get(name, "0")):
            reasons.append(f"Insufficient {name}")
    return Turned(tuple(reasons), final=False) if reasons else None


def score(wanted: Amounts, node: Obj, used: Amounts) -> float:
    """Least allocated of CPU and memory, 0 to 1; higher is emptier."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    free = []
    for name in ("cpu", "memory"):
        total = amount(name, allocatable.get(name, "0"))
        if total:
            free.append(max(0.0, 1 - (used.get(name, 0) + wanted.get(name, 0)) / total))
    return sum(free) / len(free) if free else 0.0


def nodes_to_find(count: int, percentage: int = 0) -> int:
    """How many feasible nodes are enough before the search stops. Source: pkg/scheduler, numFeasibleNodesToFind."""
    if count < 100:
        return count
    share = percentage or max(5, 50 - count // 125)
    return max(100, count * share // 100)
