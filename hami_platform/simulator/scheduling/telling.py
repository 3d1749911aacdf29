"""What the scheduler says about a pod: its condition and its events. Knows nothing of why."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from hami_platform.simulator import client, transport
from hami_platform.simulator.scheduling import predicates

Obj = dict[str, Any]


def no_node_fits(total: int, turned: Mapping[str, predicates.Turned]) -> str:
    """The text of an unschedulable pod: equal reasons counted together, then what preemption found.

    A node that an extender dropped without a reason counts as one that preemption cannot help.
    """
    reasons = Counter(reason for item in turned.values() for reason in item.reasons)
    said = f"0/{total} nodes are available:"
    if reasons:
        said += " " + ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items())) + "."
    return f"{said} no new claims to deallocate, preemption: {_preemption(total, turned.values())}"


def _preemption(total: int, turned: Iterable[predicates.Turned]) -> str:
    victims = sum(not item.final for item in turned)
    counts = [
        (victims, "No preemption victims found for incoming pod"),
        (total - victims, "Preemption is not helpful for scheduling"),
    ]
    parts = sorted(f"{count} {text}" for count, text in counts if count)
    return f"0/{total} nodes are available: {', '.join(parts)}."


class Teller:
    """Writes conditions and events; one event object per pod and text, repeated ones become a series."""

    def __init__(self, api: client.Client) -> None:
        self._api = api
        self._lock = threading.Lock()
        # By uid, resourceVersion, reason and note, as Go's recorder does: name of the event, how often.
        self._events: dict[tuple[str, str, str, str], tuple[str, int]] = {}

    def unscheduled(self, pod: Obj, reason: str, message: str) -> None:
        """Set PodScheduled=False, when it differs from what the pod says."""
        meta = pod["metadata"]
        now = _now()
        current: Obj = next(
            (item for item in (pod.get("status") or {}).get("conditions") or [] if item.get("type") == "PodScheduled"),
            {},
        )
        if (current.get("status"), current.get("reason"), current.get("message")) == ("False", reason, message):
            return
        changed = current.get("status") != "False"
        condition = {
            "type": "PodScheduled",
            "observedGeneration": meta.get("generation", 1),
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": now if changed else current.get("lastTransitionTime"),
            "reason": reason,
            "message": message,
        }
        path = client.path_of("pods", meta["namespace"], meta["name"], "status")
        self._quietly(
            lambda: self._api.patch(
                path, {"metadata": {"uid": meta["uid"]}, "status": {"conditions": [condition]}}, client.STRATEGIC_PATCH
            )
        )

    def event(self, pod: Obj, kind: str, reason: str, action: str, note: str) -> None:
        """Record an event about a pod."""
        meta = pod["metadata"]
        key = (meta["uid"], meta["resourceVersion"], reason, note)
        with self._lock:
            name, count = self._events.get(key, (f"{meta['name']}.{secrets.token_hex(8)}", 0))
            self._events[key] = (name, count + 1)
            if len(self._events) > 10_000:
                self._events.clear()
        path = client.path_of("events", meta["namespace"], group="events.k8s.io")
        if count == 0:
            self._quietly(lambda: self._api.create(path, _event(pod, name, kind, reason, action, note)))
        else:
            series = {"series": {"count": count + 1, "lastObservedTime": _micro()}}
            self._quietly(lambda: self._api.patch(f"{path}/{name}", series))

    def _quietly(self, call: Any) -> None:
        try:
            call()
        except (client.ApiFailure, transport.TransportError):
            pass  # the pod may be gone, the server away: the next attempt says it again


def _event(pod: Obj, name: str, kind: str, reason: str, action: str, note: str) -> Obj:
    meta, scheduler = pod["metadata"], pod["spec"].get("schedulerName", "default-scheduler")
    return {
        "kind": "Event",
        "apiVersion": "events.k8s.io/v1",
        "metadata": {"name": name, "namespace": meta["namespace"]},
        "eventTime": _micro(),
        "reportingController": scheduler,
        "reportingInstance": f"{scheduler}-simulated",
        "action": action,
        "reason": reason,
        "regarding": {
            "kind": "Pod",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
            "apiVersion": "v1",
            "resourceVersion": meta["resourceVersion"],
        },
        "note": note[:1024],
        "type": kind,
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
