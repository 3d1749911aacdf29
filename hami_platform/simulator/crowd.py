"""Who uses the simulated cluster: creates a scenario's objects and pods, then keeps its stream going.

Knows nothing of the platform: a pod that is denied is counted and forgotten, as a person would.
"""

from __future__ import annotations

import threading
from collections import Counter

from hami_platform.simulator import client, scenarios, transport


class Crowd:
    """A thread that submits pods of a scenario and deletes those that have ended. `scale` as in Kubelet."""

    def __init__(self, url: str, scenario: scenarios.Scenario, *, scale: float = 1.0, token: str = "") -> None:
        self._api = client.Client(url, token=token, agent="kubectl/v1.36.3 simulated")
        self._scenario, self._scale = scenario, scale
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sim-crowd", daemon=True)
        self.outcomes: Counter[str] = Counter()

    def found(self) -> None:
        """Create namespaces and quotas, then the pods that stay."""
        for plural, namespace, body in self._scenario.objects():
            self._created(client.path_of(plural, namespace), body)
        for ask in self._scenario.pods:
            self._submit(ask)

    def start(self) -> None:
        """Keep the stream going until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """End the stream; its pods stay."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(30)
        self._api.close()

    def _run(self) -> None:
        for wait_s, ask in self._scenario.stream():
            if self._over.wait(wait_s / self._scale):
                return
            try:
                if self._sweep() < self._scenario.at_once:
                    self._submit(ask)
            except (client.ApiFailure, transport.TransportError):
                self.outcomes["interrupted"] += 1  # the server is away: the next pod tries again

    def _sweep(self) -> int:
        """Delete ended pods; how many of the stream are there."""
        here = 0
        for pod in self._api.get(client.path_of("pods"))["items"]:
            meta = pod["metadata"]
            if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                self._api.delete(client.path_of("pods", meta["namespace"], meta["name"]), uid=meta["uid"])
            else:
                here += meta["name"].startswith("guest-")
        return here

    def _submit(self, ask: scenarios.Ask) -> None:
        self._created(client.path_of("pods", ask.namespace), ask.pod())

    def _created(self, path: str, body: client.Obj) -> None:
        try:
            self._api.create(path, body)
            self.outcomes["created"] += 1
        except client.ApiFailure as failure:
            if failure.code >= 500:
                raise
            self.outcomes[failure.reason or str(failure.code)] += 1
