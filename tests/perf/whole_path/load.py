"""Pods by the thousand: made over many connections, watched until they are on a node, and what all of it cost.

Must not know: who schedules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.cluster import kube, nodes

Object = dict[str, Any]
MAKERS = 8
POLL_S = 0.1


@dataclass(frozen=True)
class Figures:
    """One burst. made_s: until the last pod existed; placed_s: from kube-scheduler's start until the last had a node.

    cpu_s: processor time of each process over both.
    """

    pods: int
    made_s: float
    placed_s: float
    cpu_s: Mapping[str, float]

    @property
    def placed_per_s(self) -> float:
        return self.pods / self.placed_s

    def cpu_ms(self, names: Sequence[str]) -> float:
        """Processor time of these processes for each pod, ms."""
        return sum(self.cpu_s.get(name, 0.0) for name in names) * 1000 / self.pods

    def __str__(self) -> str:
        spent = ", ".join(f"{name} {used * 1000 / self.pods:.1f}" for name, used in self.cpu_s.items())
        return (
            f"{self.placed_per_s:.0f} pods/s placed ({self.pods} pods; made at {self.pods / self.made_s:.0f}/s);"
            f" processor ms per pod: {spent}"
        )


def namespace(api: kube.Kube, name: str) -> str:
    """Make a namespace in which pods can be made."""
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    kube.eventually("the default service account exists", lambda: api.get(account))
    return name


def make(api: kube.Kube, where: str, pods: Sequence[Object]) -> float:
    """Create these pods; the seconds it took."""
    began = time.monotonic()
    kube.at_once(lambda pod: create(api, where, pod), pods, threads=MAKERS)
    return time.monotonic() - began


def create(api: kube.Kube, where: str, pod: Object, *, within_s: float = 60) -> None:
    """Create a pod as a controller does: what fails for a moment is tried again."""
    until = time.monotonic() + within_s
    while True:
        try:
            api.create(kube.pods_of(where), pod)
        except kube.ApiError as error:
            if error.status < 500 or time.monotonic() > until:
                raise
            time.sleep(POLL_S)
        else:
            return


def burst(
    api: kube.Kube,
    where: str,
    pods: Sequence[Object],
    start: Callable[[], object],
    cpu: Callable[[], Mapping[str, float]],
    *,
    within_s: float = 600,
) -> Figures:
    """Make all pods while no scheduler runs, `start` it, and wait until each has a node.

    cpu: processor time of each process so far; one that starts with `start` counts from 0.
    """
    before = dict(cpu())
    made_s = make(api, where, pods)
    start()
    began = time.monotonic()
    await_placed(api, where, within_s=within_s)
    placed_s = time.monotonic() - began
    spent = {name: used - before.get(name, 0.0) for name, used in cpu().items()}
    return Figures(len(pods), made_s, placed_s, spent)


def await_placed(api: kube.Kube, where: str, *, within_s: float = 600) -> None:
    """Wait until no pod of the namespace lacks a node. The API server has an index for that question."""
    until = time.monotonic() + within_s
    while left := unplaced(api, where, limit=1):
        if time.monotonic() > until:
            raise AssertionError(f"not placed in {within_s:g} s: {left[0]['metadata']['name']}")
        time.sleep(POLL_S)


def unplaced(api: kube.Kube, where: str, *, limit: int = 0) -> list[Object]:
    """The pods without a node; with a limit some of them."""
    query = {"fieldSelector": "spec.nodeName=,status.phase=Pending"}
    return api.list(kube.pods_of(where), **query, **({"limit": str(limit)} if limit else {}))


def empty(api: kube.Kube, where: str, *, within_s: float = 300) -> None:
    """Delete every pod of the namespace and wait until they are gone."""
    api.call("DELETE", kube.pods_of(where), {"gracePeriodSeconds": 0})
    gone = lambda: not api.list(kube.pods_of(where), limit="1")  # noqa: E731
    kube.eventually(f"{where} is empty", gone, within_s=within_s)


def asking(count: int, *containers: Object, prefix: str = "pod", **spec: Any) -> list[Object]:
    """Pods alike, numbered."""
    return [nodes.pod(f"{prefix}-{number}", *containers, **spec) for number in range(count)]
