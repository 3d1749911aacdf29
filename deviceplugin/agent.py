"""Puts the agent together and runs it until it is told to stop.

Everything is chosen here once, from the settings: which cards, which way of remembering, whether
completion is reported. Must not know: what the parts do.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from deviceplugin import (
    allocate,
    board,
    by_annotation,
    by_checkpoint,
    checkpoint,
    completion,
    grants,
    handover,
    health,
    heartbeat,
    inventory,
    kubelet,
    loops,
    monitor_setup,
    outfit,
    patience,
    register,
    registrar,
    tidy,
)
from hami_platform import logs
from hami_platform.kube import api

HEALTH_PERIOD_S = 5.0
TIDY_PERIOD_S = 300.0
END_S = 5.0

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """What an agent needs to be told. platform None: completion is reported to nobody."""

    node: str
    face: kubelet.Face
    state_file: Path
    scaling: register.Scaling
    enforcement: grants.Enforcement
    annotations: bool = False
    """HAMi's protocol: pods are found and remembered by annotations and the node lock."""
    check_library: bool = False
    platform: completion.Platform | None = None
    monitor: monitor_setup.Options | None = None
    health_period_s: float = HEALTH_PERIOD_S
    tidy_period_s: float = TIDY_PERIOD_S


class Agent:
    """One node's agent. `run` returns the exit status."""

    def __init__(self, options: Options, cards: inventory.Inventory, kube: api.Api, stop: loops.Stop) -> None:
        self._options = options
        self._stop = stop
        self._shown = board.Board()
        self._turn = threading.Lock()
        self._record = checkpoint.Checkpoint(options.state_file)
        self._health = health.HealthWatch(cards, self._shown, options.health_period_s)
        self._allocator = self._allocations(cards, kube)
        self._link = kubelet.Link(
            options.face, kubelet.Servicer(options.face, self._shown, options.scaling, self._allocator)
        )
        self._loops = self._make_loops(cards, kube)
        self._monitoring = self._monitor(cards, kube)

    def run(self) -> int:
        """Serve until stopped. 0: asked to stop; 1: a loop ended by a fault."""
        self._health.step()  # before kubelet and the scheduler hear anything
        log.info("agent_started", node=self._options.node, cards=len(self._shown.picture.cards))
        running = (*self._loops, *self._monitoring.loops)
        for loop in running:
            loop.start()
        self._stop.event.wait()
        for loop in running:
            loop.end(END_S)
        self._monitoring.close()
        self._shown.close()
        self._link.close()
        log.info("agent_stopped", node=self._options.node, faults=self._stop.faults)
        return 1 if self._stop.faults else 0

    def _allocations(self, cards: inventory.Inventory, kube: api.Api) -> allocate.Allocator:
        options = self._options
        outfitter = outfit.Outfitter(self._shown, cards, options.enforcement, check_library=options.check_library)
        return allocate.Allocator(self._handover(cards, kube), outfitter, self._turn, self._completed)

    def _handover(self, cards: inventory.Inventory, kube: api.Api) -> handover.Handover:
        reader = patience.PatientReader(kube, self._stop.event)
        node, resource = self._options.node, self._options.face.resource
        if self._options.annotations:
            return by_annotation.AnnotationHandover(node, resource, kube, reader, self._record, cards)
        return by_checkpoint.CheckpointHandover(node, resource, reader, self._record, cards)

    def _make_loops(self, cards: inventory.Inventory, kube: api.Api) -> tuple[loops.Loop, ...]:
        options, stop = self._options, self._stop
        keeper = registrar.Registrar(options.node, kube, self._shown, options.scaling, marked=not options.annotations)
        self._registering = loops.Loop("register", keeper.step, stop)
        made = [self._registering, loops.Loop("kubelet", self._link.step, stop)]
        made.append(loops.Loop("health", self._look, stop))
        directories = Path(options.enforcement.root) / "containers"
        tidier = tidy.Tidier(options.node, kube, self._record, cards, directories, self._turn, options.tidy_period_s)
        made.append(loops.Loop("tidy", tidier.step, stop))
        if not options.annotations:
            made.append(loops.Loop("heartbeat", heartbeat.Heartbeat(options.node, kube).step, stop))
        self._reporting = None
        if options.platform and not options.annotations:
            reporter = completion.Reporter(options.node, options.platform, self._record)
            self._reporting = loops.Loop("report", reporter.step, stop)
            made.append(self._reporting)
        return tuple(made)

    def _monitor(self, cards: inventory.Inventory, kube: api.Api) -> monitor_setup.Monitoring:
        options = self._options
        if options.monitor is None:
            return monitor_setup.Monitoring()
        seen = monitor_setup.Seen(kube, self._shown, self._record, cards)
        directories = Path(options.enforcement.root) / "containers"
        return monitor_setup.monitoring(options.node, options.monitor, seen, directories, options.platform, self._stop)

    def _look(self) -> float:
        version = self._shown.picture.version
        wait_s = self._health.step()
        if self._shown.picture.version != version:
            self._registering.poke()
        return wait_s

    def _completed(self) -> None:
        if self._reporting:
            self._reporting.poke()
