"""Tells the platform which containers have their devices, until it has understood.

The queue is the checkpoint: containers that were served and not yet reported. So it is on disk, it
survives the platform being away and the agent being killed, and it is bounded by the pods that
exist on the node. The contract is in docs/agent.md. Must not know: kubelet, the API server.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deviceplugin import checkpoint, meters
from hami_platform import logs

PATH = "/api/agent/allocations"
TIMEOUT_S = 5.0
IDLE_S = 60.0
RETRY_FIRST_S = 1.0
RETRY_MOST_S = 30.0

log = logs.get(__name__)


class Undelivered(Exception):
    """The platform did not answer, or cannot answer now: the report is sent again."""


class Rejected(Exception):
    """The platform understood, and does not want this report: sending it again is useless."""


@dataclass(frozen=True, slots=True)
class Platform:
    """Where reports go, and the bearer token that says who sends them."""

    url: str
    token: str = field(default="", repr=False)
    ca_file: Path | None = None

    def post(self, report: Mapping[str, Any], path: str = PATH) -> None:
        """Deliver one report. Raises Undelivered or Rejected."""
        try:
            # The scheme is checked with the settings, so no file: address gets here.
            with urllib.request.urlopen(self._request(report, path), timeout=TIMEOUT_S, context=self._tls()):  # noqa: S310
                return
        except urllib.error.HTTPError as error:
            with error:
                _judge(error.code)
        except (OSError, ValueError) as error:
            raise Undelivered(str(error)) from error

    def _request(self, report: Mapping[str, Any], path: str) -> urllib.request.Request:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        body = json.dumps(report).encode()
        return urllib.request.Request(self.url.rstrip("/") + path, body, headers, method="POST")  # noqa: S310

    def _tls(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https:"):
            return None
        return ssl.create_default_context(cafile=self.ca_file)


def _judge(code: int) -> None:
    """Only a verdict on the report itself is final; a bad token or a busy server is not."""
    if code in (400, 404, 409, 410, 422):
        raise Rejected(f"HTTP {code}")
    raise Undelivered(f"HTTP {code}")


class Reporter:
    """A step for a Loop, poked after every Allocate."""

    def __init__(self, node: str, platform: Platform, record: checkpoint.Checkpoint) -> None:
        self._node = node
        self._platform = platform
        self._record = record
        self._retry_s = RETRY_FIRST_S

    def step(self) -> float:
        """Send what is due, in order; stop at the first that cannot be delivered."""
        waiting = due(self._record)
        meters.REPORTS_WAITING.set(len(waiting))
        for uid, given in waiting:
            try:
                self._report(uid, given)
            except Undelivered as error:
                log.warning("completion_undelivered", uid=uid, waiting=len(due(self._record)), error=str(error))
                return self._later()
            except checkpoint.CheckpointError as error:
                log.error("checkpoint_not_written", uid=uid, error=str(error))
                return self._later()
        self._retry_s = RETRY_FIRST_S
        return IDLE_S

    def _report(self, uid: str, given: checkpoint.Given) -> None:
        report = {"uid": uid, "container": given.container, "node": self._node, "devices": list(given.devices)}
        try:
            self._platform.post(report)
        except Rejected as error:
            log.warning("completion_rejected", uid=uid, container=given.container, error=str(error))
        self._record.reported(uid, given.container)
        meters.REPORTS_WAITING.dec()

    def _later(self) -> float:
        wait_s, self._retry_s = self._retry_s, min(2 * self._retry_s, RETRY_MOST_S)
        return wait_s


def due(record: checkpoint.Checkpoint) -> list[tuple[str, checkpoint.Given]]:
    """Pod uid and what a container was given, where the platform does not know of it yet, oldest first."""
    return [(uid, one) for uid, entry in record.pods.items() for one in entry.given if not one.reported]
