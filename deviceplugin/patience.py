"""Reads from the API server that outlast a short failure.

A refused Allocate fails its pod for good, so a connection that is reset once must not refuse it.
Must not know: what is read.
"""

from __future__ import annotations

import threading
from typing import TypeVar

from hami_platform.kube import api, calls, errors

T = TypeVar("T")

PAUSES_S = (0.2, 0.5, 1.0)
TIMEOUT_S = 2.5
"""Waits between tries, and for each of them: kubelet admits no other pod meanwhile, so about 20 s in all."""


class PatientReader:
    """Repeats reads whose failure may pass. `stop` ends the waiting at once."""

    def __init__(self, kube: api.Api, stop: threading.Event, pauses_s: tuple[float, ...] = PAUSES_S) -> None:
        self._kube = kube
        self._stop = stop
        self._pauses_s = pauses_s

    def read(self, call: calls.KubeCall[T]) -> T:
        """The answer. Raises kube errors: refusals at once, others after the last try."""
        for pause_s in self._pauses_s:
            try:
                return self._kube.send(call, timeout_s=TIMEOUT_S)
            except (errors.Unreachable, errors.Ambiguous, errors.Throttled):
                if self._stop.wait(pause_s):
                    break
        return self._kube.send(call, timeout_s=TIMEOUT_S)
