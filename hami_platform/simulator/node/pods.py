"""The pods of one node: admitted, walked through their containers, reported, removed.

Annotations drive a simulated pod, in simulated seconds: `simulator/run-for` (its apps, else for ever),
`simulator/init-for` (each init container, or one number each, comma-separated; default 1), `simulator/exit-code`,
`simulator/init-exit-code`, `simulator/stop-for` (how long its end takes). `simulator/manual: "true"` leaves the
status to the test. Called by one worker thread only. Knows nothing of how devices are found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hami_platform.simulator import client, transport
from hami_platform.simulator.node import lifecycle, worker

Obj = dict[str, Any]
Admit = Callable[[Obj], None]
"""Gives a pod what it needs of the node; raises Rejected."""

_RESTART_S = 10.0  # source: kubelet, first step of the crash loop back-off


class Rejected(Exception):
    """The node does not take the pod: `reason` and `message` go into its status."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


@dataclass(slots=True)
class _Live:
    """A pod on this node."""

    pod: Obj
    run: lifecycle.PodRun | None
    manual: bool
    round: int = 0  # timers of an earlier round are void
    ending: bool = False
    reported: Obj = field(default_factory=dict)


class Pods:
    """What one kubelet knows of its pods. `scale` is how many simulated seconds pass in a real one."""

    def __init__(
        self,
        api: client.Client,
        work: worker.Worker,
        *,
        node_ip: str,
        admit: Admit,
        release: Callable[[str], None],
        started: Callable[[str, str], None],
        scale: float = 1.0,
    ) -> None:
        self._api, self._work = api, work
        self._node_ip = node_ip
        self._admit, self._release, self._started = admit, release, started
        self._scale = scale
        self._live: dict[str, _Live] = {}
        self._addresses = 0

    def changed(self, pod: Obj) -> None:
        """The API server shows a pod of this node, new or changed."""
        uid, meta = pod["metadata"]["uid"], pod["metadata"]
        live = self._live.get(uid)
        if live is None and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            live = self._taken(pod)
        if live is None:
            if meta.get("deletionTimestamp"):
                self._remove(pod)
            return
        live.pod = pod
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            self._release(uid)
        if meta.get("deletionTimestamp") and not live.ending:
            self._begin_end(live)

    def gone(self, pod: Obj) -> None:
        """The pod's object is gone."""
        self._live.pop(pod["metadata"]["uid"], None)
        self._release(pod["metadata"]["uid"])

    def rebuild(self, namespace: str, name: str) -> None:
        """Lose the pod's sandbox: all its containers start over, init containers first."""
        live = self._find(namespace, name)
        if live and live.run:
            live.run.rebuild(now_text())
            live.round += 1
            self._proceed(live)

    def crash(self, namespace: str, name: str, container: str, exit_code: int) -> None:
        """Let one running container exit."""
        live = self._find(namespace, name)
        if live and live.run:
            self._exited(live, live.round, container, exit_code)

    def report_again(self) -> None:
        """Send every status that could not be sent before."""
        for live in list(self._live.values()):
            self._report(live)

    def _find(self, namespace: str, name: str) -> _Live | None:
        for live in self._live.values():
            meta = live.pod["metadata"]
            if (meta["namespace"], meta["name"]) == (namespace, name):
                return live
        return None

    def _taken(self, pod: Obj) -> _Live | None:
        """Admit a new pod and begin to run it; a pod that is already being deleted is not begun."""
        uid = pod["metadata"]["uid"]
        if pod["metadata"].get("deletionTimestamp"):
            return None
        manual = _note(pod, "manual") == "true"
        live = self._live[uid] = _Live(pod, None, manual)
        try:
            self._admit(pod)
        except Rejected as refusal:
            self._release(uid)
            status = {"phase": "Failed", "reason": refusal.reason, "message": refusal.message, "startTime": now_text()}
            self._send(live, status)
            return live
        if not manual:
            self._addresses += 1
            subnet = self._node_ip.rpartition(".")[2]
            address = f"10.244.{subnet}.{self._addresses % 250 + 2}"
            live.run = lifecycle.PodRun(pod, now_text(), address)
            self._report(live)
            self._proceed(live)
        return live

    # --- running --------------------------------------------------------------------------------------------

    def _proceed(self, live: _Live) -> None:
        run = live.run
        if run is None or live.ending:
            return
        for container in run.proceed(now_text()):
            self._started(run.uid, container.name)
            lasts_s = _lasts_s(live.pod, run, container)
            if lasts_s is not None:
                self._later(live, lasts_s, container)
        if run.over:
            run.stop(0, now_text())
            live.round += 1
        self._report(live)

    def _later(self, live: _Live, lasts_s: float, container: lifecycle.Container) -> None:
        code = int(_note(live.pod, "init-exit-code" if container.kind == "init" else "exit-code") or 0)
        begun, name = live.round, container.name
        self._work.submit(lambda: self._exited(live, begun, name, code), lasts_s / self._scale)

    def _exited(self, live: _Live, begun: int, name: str, exit_code: int) -> None:
        run = live.run
        if run is None or live.ending or begun != live.round or run.container(name).state != "running":
            return
        if run.ended(name, exit_code, now_text()):
            round_ = live.round
            self._report(live)
            self._work.submit(lambda: self._again(live, round_), _RESTART_S / self._scale)
        else:
            self._proceed(live)

    def _again(self, live: _Live, begun: int) -> None:
        if begun == live.round:
            self._proceed(live)

    # --- ending ---------------------------------------------------------------------------------------------

    def _begin_end(self, live: _Live) -> None:
        live.ending = True
        grace_s = float(live.pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        stop_s = float(_note(live.pod, "stop-for") or 0) / self._scale
        killed = stop_s > grace_s
        self._work.submit(lambda: self._end(live, 137 if killed else 0), min(stop_s, grace_s))

    def _end(self, live: _Live, exit_code: int) -> None:
        if live.run:
            live.run.stop(exit_code, now_text())
            self._report(live)
        self._release(live.pod["metadata"]["uid"])
        self._remove(live.pod)

    def _remove(self, pod: Obj) -> None:
        """The last DELETE, which takes the object away."""
        meta = pod["metadata"]
        try:
            self._api.delete(client.path_of("pods", meta["namespace"], meta["name"]), grace_s=0, uid=meta["uid"])
        except client.ApiFailure as failure:
            if failure.code not in (404, 409):
                self._work.submit(lambda: self._remove(pod), 1.0)
        except transport.TransportError:
            self._work.submit(lambda: self._remove(pod), 1.0)

    # --- reporting ------------------------------------------------------------------------------------------

    def _report(self, live: _Live) -> None:
        if live.run and not live.manual:
            self._send(live, live.run.status(now_text(), self._node_ip))

    def _send(self, live: _Live, status: Obj) -> None:
        if status == live.reported:
            return
        meta = live.pod["metadata"]
        path = client.path_of("pods", meta["namespace"], meta["name"], "status")
        try:
            self._api.patch(path, {"metadata": {"uid": meta["uid"]}, "status": status}, client.STRATEGIC_PATCH)
            live.reported = status
        except client.ApiFailure as failure:
            if failure.code not in (404, 409):
                self._work.submit(lambda: self._report(live), 1.0)
        except transport.TransportError:
            self._work.submit(lambda: self._report(live), 1.0)


def _note(pod: Obj, name: str) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(f"simulator/{name}", ""))


def _lasts_s(pod: Obj, run: lifecycle.PodRun, container: lifecycle.Container) -> float | None:
    """Simulated seconds until a container ends by itself; None: never."""
    if container.kind == "sidecar":
        return None
    if container.kind == "app":
        text = _note(pod, "run-for")
        return float(text) if text else None
    numbers = (_note(pod, "init-for") or "1").split(",")
    ordinary = [item.name for item in run.inits if item.kind == "init"]
    return float(numbers[min(ordinary.index(container.name), len(numbers) - 1)])


def now_text() -> str:
    """Wall time as the API carries it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
