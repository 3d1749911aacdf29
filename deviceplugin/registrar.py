"""Keeps the node object true: the register annotation, and the mark that says whose agent this is.

Any change of a node wakes every waiting pod in kube-scheduler, so it is patched only when what
it says differs from what it should say. Must not know: kubelet, health checks.
"""

from __future__ import annotations

from deviceplugin import VERSION, board, meters, register
from hami_platform import logs
from hami_platform.domain import devices
from hami_platform.domain.vendors import nvidia
from hami_platform.domain.wire import node_register
from hami_platform.kube import api, calls, errors, objects

REGISTER = nvidia.declare({}).register_key
AGENT_LABEL = "platform.hami.io/agent"

CHECK_S = 30.0
RETRY_S = 5.0
"""As HAMi v2.10.0: 30 s after success, 5 s after an error."""

log = logs.get(__name__)


class Registrar:
    """A step for a Loop. marked: carry our label (platform mode); otherwise take it off."""

    def __init__(
        self, node: str, kube: api.Api, shown: board.Board, scaling: register.Scaling, *, marked: bool
    ) -> None:
        self._node = node
        self._kube = kube
        self._shown = shown
        self._scaling = scaling
        self._label = VERSION if marked else None

    def step(self) -> float:
        """One comparison, and one patch if something differs."""
        try:
            node = self._kube.send(calls.node_get(name=self._node))
            self._correct(node)
        except errors.KubeError as error:
            log.warning("register_failed", node=self._node, error=str(error))
            return RETRY_S
        return CHECK_S

    def _correct(self, node: objects.Node) -> None:
        annotations = differing(node.metadata.annotations, {REGISTER: self._text()})
        labels = differing(node.metadata.labels, {AGENT_LABEL: self._label})
        if annotations or labels:
            self._kube.send(calls.node_annotate(name=self._node, annotations=annotations, labels=labels))
            meters.NODE_PATCHES.inc()
            log.info("registered", node=self._node, annotations=len(annotations), labels=len(labels))

    def _text(self) -> str | None:
        """None without cards: an empty list is an error to HAMi's scheduler, as is no annotation."""
        found = register.registered(self._shown.picture.cards, self._scaling)
        return encoded(found) if found else None


def encoded(found: tuple[devices.Device, ...]) -> str:
    """The annotation's text."""
    return node_register.encode(found)


def differing(now: dict[str, str], wanted: dict[str, str | None]) -> dict[str, str | None]:
    """Those of `wanted` that are not so yet; None means the key is to be absent."""
    return {key: value for key, value in wanted.items() if now.get(key) != value}
