"""Keeps the node object true: the register annotation, and the mark that says whose agent this is.

Any change of a node wakes every waiting pod in kube-scheduler, so it is patched only when what
it says differs from what it should say. Must not know: kubelet, health checks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from deviceplugin import VERSION, board, inventory, meters, register
from hami_platform import logs
from hami_platform.domain import devices
from hami_platform.domain.vendors import nvidia
from hami_platform.domain.wire import node_register, pair_scores
from hami_platform.kube import api, calls, errors, objects

REGISTER = nvidia.declare({}).register_key
PAIR_SCORES = nvidia.declare({}).pair_scores_key
AGENT_LABEL = "platform.hami.io/agent"
LIMITS_LABEL = "platform.hami.io/limits"

CHECK_S = 30.0
RETRY_S = 5.0
"""As HAMi v2.10.0: 30 s after success, 5 s after an error."""

ASYMMETRIC = "AsymmetricGPUP2PLink"
EVENT_PERIOD_S = 3600.0
"""HAMi v2.10.0: reason of the node's event, and how long the same one is not repeated."""

log = logs.get(__name__)


class Registrar:
    """A step for a Loop. marked: carry our label (platform mode); otherwise take it off.

    limits: how containers are held to their limits, one word; empty: not told.
    scores: tell how well cards are connected. static: cards in MIG mode belong to the kubelet, so they are left out.
    """

    def __init__(
        self,
        node: str,
        kube: api.Api,
        shown: board.Board,
        scaling: register.Scaling,
        *,
        marked: bool,
        scores: bool = False,
        static: bool = False,
        limits: Callable[[], str] = str,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._node = node
        self._kube = kube
        self._shown = shown
        self._scaling = scaling
        self._label = VERSION if marked else None
        self._scores = scores
        self._static = static
        self._limits = limits
        self._now_s = now_s
        self._told: dict[tuple[str, str], float] = {}

    def step(self) -> float:
        """One comparison, and one patch if something differs."""
        cards = [card for card in self._shown.picture.cards if not (self._static and card.mode == inventory.MIG)]
        try:
            node = self._kube.send(calls.node_get(name=self._node))
            self._correct(node, cards)
            if self._scores:
                self._tell(cards)
        except errors.KubeError as error:
            log.warning("register_failed", node=self._node, error=str(error))
            return RETRY_S
        return CHECK_S

    def _correct(self, node: objects.Node, cards: Iterable[inventory.Card]) -> None:
        found = register.registered(cards, self._scaling)
        # None without cards: an empty list is an error to HAMi's scheduler, as is no annotation.
        wanted = {REGISTER: encoded(found) if found else None}
        if self._scores:
            wanted[PAIR_SCORES] = scored(cards)
        annotations = differing(node.metadata.annotations, wanted)
        limits = self._limits() if self._label else ""
        labels = differing(node.metadata.labels, {AGENT_LABEL: self._label, LIMITS_LABEL: limits or None})
        if annotations or labels:
            self._kube.send(calls.node_annotate(name=self._node, annotations=annotations, labels=labels))
            meters.NODE_PATCHES.inc()
            log.info("registered", node=self._node, annotations=len(annotations), labels=len(labels))

    def _tell(self, cards: Iterable[inventory.Card]) -> None:
        """An event for each pair of cards whose two sides disagree about their links, once an hour."""
        for pair in asymmetric(cards):
            now_s = self._now_s()
            if now_s - self._told.get(pair, -EVENT_PERIOD_S) < EVENT_PERIOD_S:
                continue
            at = datetime.fromtimestamp(now_s, UTC)
            message = f"{pair[0]} and {pair[1]} report different numbers of NVLinks; their pair scores 0"
            call = calls.node_event_create(
                name=f"{self._node}.{int(now_s * 1e9):x}",
                node=self._node,
                reason=ASYMMETRIC,
                message=message,
                type_="Warning",
                component="hami-platform-agent",
                at=at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            )
            self._told[pair] = now_s
            try:
                self._kube.send(call)
            except errors.KubeError as error:
                log.warning("event_not_written", node=self._node, message=message, error=str(error))


def encoded(found: tuple[devices.Device, ...]) -> str:
    """The annotation's text."""
    return node_register.encode(found)


def scored(cards: Iterable[inventory.Card]) -> str | None:
    """The pair scores' text; None where no card knows of another."""
    table = {(card.uuid, peer.uuid): peer.score for card in cards for peer in card.peers}
    return pair_scores.encode(table) if table else None


def asymmetric(cards: Iterable[inventory.Card]) -> list[tuple[str, str]]:
    """Pairs of cards, each once, whose two sides disagree."""
    pairs = ((card.uuid, peer.uuid) for card in cards for peer in card.peers if not peer.symmetric)
    return sorted({(min(pair), max(pair)) for pair in pairs})


def differing(now: dict[str, str], wanted: dict[str, str | None]) -> dict[str, str | None]:
    """Those of `wanted` that are not so yet; None means the key is to be absent."""
    return {key: value for key, value in wanted.items() if now.get(key) != value}
