"""Compares what the kubelet says pods hold with what this agent gave them.

Pure. Must not know: gRPC, the API server, who is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from deviceplugin import checkpoint, replicas, rows
from hami_platform.kube import objects

UNRECORDED = "unrecorded"
OTHER_IDS = "other-ids"
NOT_HELD = "not-held"


@dataclass(frozen=True, slots=True)
class Held:
    """What one container holds of the node's resource, by the kubelet's books."""

    namespace: str
    pod: str
    container: str
    ids: frozenset[str]


@dataclass(frozen=True, order=True, slots=True)
class Difference:
    """One container about which kubelet and agent disagree. kind: one of the words above."""

    namespace: str
    pod: str
    container: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """Cards that the kubelet gave to a pod that nobody placed."""

    namespace: str
    pod: str
    cards: tuple[str, ...]


def differences(
    held: Iterable[Held], given: Mapping[str, checkpoint.PodRecord], pods: Iterable[objects.Pod]
) -> frozenset[Difference]:
    """Of pods that were placed for their devices and have not ended. One at admission may differ for a moment."""
    books = {(one.namespace, one.pod, one.container): one.ids for one in held}
    found: list[Difference] = []
    for pod in pods:
        if placed(pod) and rows.alive(pod):
            record = given.get(pod.metadata.uid)
            recorded = {one.container: frozenset(one.ids) for one in record.given} if record else {}
            found += _of_pod(pod, books, recorded)
    return frozenset(found)


def unmanaged(held: Iterable[Held], pods: Iterable[objects.Pod], cards: frozenset[str]) -> frozenset[Unmanaged]:
    """Pods that came past the platform and hold devices all the same."""
    found: dict[tuple[str, str], set[str]] = {}
    for one in held:
        found.setdefault((one.namespace, one.pod), set()).update(replicas.physical(id_, cards) for id_ in one.ids)
    strangers = {(p.metadata.namespace, p.metadata.name) for p in pods if not placed(p) and rows.alive(p)}
    return frozenset(Unmanaged(*key, tuple(sorted(found[key]))) for key in found.keys() & strangers)


def placed(pod: objects.Pod) -> bool:
    """Whether a scheduler reserved its devices."""
    return rows.BIND_PHASE in pod.metadata.annotations


def _of_pod(
    pod: objects.Pod, books: Mapping[tuple[str, str, str], frozenset[str]], recorded: Mapping[str, frozenset[str]]
) -> Iterator[Difference]:
    space, name = pod.metadata.namespace, pod.metadata.name
    for container in rows.containers(pod):
        has = books.get((space, name, container.name), frozenset())
        gave = recorded.get(container.name)
        if verdict := _verdict(has, gave, holding=_holding(pod, container.name)):
            kind, message = verdict
            yield Difference(space, name, container.name, kind, message)


def _verdict(has: frozenset[str], gave: frozenset[str] | None, *, holding: bool) -> tuple[str, str] | None:
    """gave: None without a record, empty in one of an older agent. holding: the kubelet should list it now."""
    if has and gave is None:
        return UNRECORDED, f"the kubelet has given it {_text(has)}, and the agent has no record of it"
    if has and gave and has != gave:
        return OTHER_IDS, f"the kubelet says that it holds {_text(has)}, the agent was asked for {_text(gave)}"
    if holding and gave is not None and not has:
        return NOT_HELD, "the agent gave it devices, and the kubelet says that it holds none"
    return None


def _holding(pod: objects.Pod, container: str) -> bool:
    """Whether it is an app container that runs: the kubelet lists no init container that is over."""
    return any(status.name == container and status.state.running for status in pod.status.container_statuses)


def _text(ids: frozenset[str]) -> str:
    return ", ".join(sorted(ids))
