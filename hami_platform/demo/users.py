"""The people of the demonstration as a process: they submit pods, and new ones as those end.

`python -m hami_platform.demo.users API_URL SEED`. What stays is kept as a controller keeps it: a pod that failed or
was deleted comes again. Must not know: the platform; everything goes through the API server.
"""

from __future__ import annotations

import itertools
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from hami_platform import logs
from hami_platform.demo import people, workloads
from hami_platform.simulator import client, transport

Obj = dict[str, Any]
TICK_S: Final = 0.5
GUESTS_A_ROUND: Final = 3
DENIED_EVERY_TICKS: Final = 40
_FINISHED: Final = ("Succeeded", "Failed")
_log = logs.get(__name__)


class Users:
    """One round is `step`; it never waits and a failed call is tried again in a later round."""

    def __init__(self, api: client.Client, seed: int) -> None:
        self._api = api
        self._stream = workloads.stream(seed)
        self._round = 0

    def found_namespaces(self) -> None:
        """Make those that are missing."""
        for one in people.NAMESPACES:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one["name"]}}
            self._created(client.path_of("namespaces"), body)

    def step(self) -> None:
        """Clean up what has ended, submit what is missing: the foundation first, for the rest needs full cards."""
        pods: list[Obj] = self._api.get(client.path_of("pods"))["items"]
        self._sweep(pods)
        known = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in pods}
        self._submit(workloads.FOUNDATION, known)
        if all(_placed(known.get((one.namespace, one.name))) for one in workloads.FOUNDATION):
            self._submit((*workloads.RESIDENTS, *workloads.WAITING), known)
            self._guests(pods)
            if self._round % DENIED_EVERY_TICKS == 0:
                self._submit([workloads.DENIED], known)
            self._round += 1

    def _sweep(self, pods: Iterable[Obj]) -> None:
        for pod in pods:
            meta = pod["metadata"]
            if (pod.get("status") or {}).get("phase") in _FINISHED and not meta.get("deletionTimestamp"):
                try:
                    self._api.delete(client.path_of("pods", meta["namespace"], meta["name"]), uid=meta["uid"])
                except client.ApiFailure as failure:
                    _log.info("not_deleted", pod=f"{meta['namespace']}/{meta['name']}", why=failure.message)

    def _submit(self, asks: Sequence[workloads.Ask], known: dict[tuple[str, str], Obj]) -> None:
        for ask in asks:
            if (ask.namespace, ask.name) not in known:
                self._created(client.path_of("pods", ask.namespace), ask.pod())

    def _guests(self, pods: Iterable[Obj]) -> None:
        """A few more of the stream, while there is room for them."""
        here = Counter(pod["metadata"]["namespace"] for pod in pods if _guest(pod))
        for wanted in itertools.islice(self._stream, GUESTS_A_ROUND):
            place = wanted.namespace
            if here.total() < workloads.GUESTS_AT_ONCE and here[place] < workloads.most_at_once(place):
                self._created(client.path_of("pods", place), wanted.pod())
                here[place] += 1

    def _created(self, path: str, body: Obj) -> None:
        try:
            self._api.create(path, body)
        except client.ApiFailure as failure:
            if failure.reason != "AlreadyExists":
                _log.info("not_created", name=body["metadata"]["name"], code=failure.code, why=failure.message)


def _placed(pod: Obj | None) -> bool:
    return bool(pod and pod["spec"].get("nodeName"))


def _guest(pod: Obj) -> bool:
    return workloads.STREAM_LABEL in (pod["metadata"].get("labels") or {})


def main(arguments: list[str]) -> int:
    """Submit until SIGTERM."""
    logs.configure("info", "text")
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    users = Users(client.Client(arguments[0], agent="kubectl/v1.36.3 simulated"), int(arguments[1]))
    users.found_namespaces()
    while not over.is_set():
        try:
            users.step()
        except (transport.TransportError, client.ApiFailure) as failure:
            _log.warning("interrupted", why=str(failure))
        over.wait(TICK_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
