"""Asks the scheduler to move a container to cards that the kubelet can give it (NUMA alignment).

Must not know: who is moved, or what becomes of the answer. Source of the contract: HAMi, NumaRefitRequest (newer than
v2.10.0); ours is in docs/hami.md.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

PATH = "/refit"
TIMEOUT_S = 2.0
MOST_CARDS = 512
MOST_BYTES = 64 << 10


class RefitFailed(Exception):
    """The container stays where it is; the message says why."""


class Ask(msgspec.Struct, frozen=True, rename="camel"):
    """The request, as it travels."""

    pod_uid: str = msgspec.field(name="podUID")
    pod_namespace: str
    pod_name: str
    node_name: str
    container_index: int
    container_name: str
    device_type: str
    allowed: tuple[str, ...] = msgspec.field(name="allowedDeviceUUIDs")


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    succeeded: bool = False
    failure_reason: str = ""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Where to ask. token: read for each request, since a service account's changes. ca_file: None for the system's."""

    url: str
    token: Callable[[], str] = field(default=lambda: "", repr=False)
    ca_file: str | None = None
    insecure: bool = False

    def move(self, ask: Ask) -> None:
        """Returns once the pod's annotations name cards that are allowed. Raises RefitFailed."""
        try:
            with urllib.request.urlopen(self._request(ask), timeout=TIMEOUT_S, context=self._tls()) as answer:  # noqa: S310
                found = msgspec.json.decode(answer.read(MOST_BYTES), type=_Answer)
        except urllib.error.HTTPError as error:
            error.close()
            raise RefitFailed(f"{self.url} answers {error.code}") from error
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise RefitFailed(f"{self.url} cannot be asked: {error}") from error
        if not found.succeeded:
            raise RefitFailed(found.failure_reason or "the scheduler gives no reason")

    def _request(self, ask: Ask) -> urllib.request.Request:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token := self.token():
            headers["Authorization"] = f"Bearer {token}"
        body = json.dumps(msgspec.to_builtins(ask)).encode()
        url = self.url.rstrip("/").removesuffix(PATH) + PATH
        return urllib.request.Request(url, body, headers, method="POST")  # noqa: S310

    def _tls(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https:"):
            return None
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context
