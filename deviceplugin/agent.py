"""Puts the agent together and runs it until it is told to stop.

Everything is chosen here once, from the settings: which cards, which way of remembering, whether
completion is reported. Must not know: what the parts do.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deviceplugin import (
    align,
    allocate,
    board,
    books_watch,
    by_annotation,
    by_checkpoint,
    checkpoint,
    completion,
    devnodes,
    faces,
    grants,
    handover,
    health,
    heartbeat,
    inventory,
    libvgpu,
    looks,
    loops,
    mig_made,
    mig_owner,
    monitor_setup,
    offers,
    outfit,
    patience,
    reach,
    register,
    registrar,
    restore,
    runtime,
    specs,
    static_mig,
    tidy,
)
from hami_platform import health as address
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
    faces: faces.Plan
    state_file: Path
    scaling: register.Scaling
    enforcement: grants.Enforcement
    handing: runtime.Handing = field(default_factory=runtime.Handing)
    cdi: specs.Plan | None = None
    dev_inside: Path = Path("/")
    mover: align.Mover | None = None
    scores: bool = False
    owns_mig: bool = False
    pod_resources: Path | None = None
    """The kubelet's socket, with whose answers the record is compared."""
    annotations: bool = False
    """HAMi's protocol: pods are found and remembered by annotations and the node lock."""
    check_library: bool = False
    library: libvgpu.Wanted | None = None
    """None: nobody looks after the limiting library, as for made-up cards."""
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
        measured = cards
        cards = mig_made.Recorded(mig_owner.Owned(cards) if options.owns_mig else cards, self._record)
        self._limits = self._limiter()
        self._health = health.HealthWatch(cards, self._shown, options.health_period_s)
        self._reach = self._reached(cards)
        # With the cards themselves: what is made again is on record already.
        self._restorer = restore.Restorer(self._record, measured, options.enforcement, shared=options.check_library)
        instances = static_mig.StaticAllocations(self._shown, self._reach)
        self._links = faces.links(options.faces, self._shown, self._allocations(cards, kube), instances)
        self._beating: heartbeat.Heartbeat | None = None
        self._loops = self._make_loops(cards, kube)
        self._monitoring = self._monitor(measured, kube)

    def run(self) -> int:
        """Serve until stopped. 0: asked to stop; 1: a loop ended by a fault."""
        self._health.step()  # before kubelet and the scheduler hear anything
        self._reach.show(self._shown.picture.cards)
        self._limits.step()
        log.info("agent_started", node=self._options.node, cards=len(self._shown.picture.cards))
        running = (*self._loops, *self._monitoring.loops)
        for loop in running:
            loop.start()
        self._show_health(running)
        self._stop.event.wait()
        for loop in running:
            loop.end(END_S)
        self._monitoring.close()
        self._shown.close()
        self._links.close()
        log.info("agent_stopped", node=self._options.node, faults=self._stop.faults)
        return 1 if self._stop.faults else 0

    def _show_health(self, running: Sequence[loops.Loop]) -> None:
        looks.register(self._shown, self._links, running, self._beating)
        looks.register_others({"limits": self._limited, **self._monitoring.looks})

    def _limited(self) -> str:
        standing = self._limits.standing
        return address.OK if standing.state == libvgpu.ENFORCED else f"{standing.state}: {standing.why}".rstrip(": ")

    def _allocations(self, cards: inventory.Inventory, kube: api.Api) -> allocate.Allocator:
        options = self._options
        outfitter = outfit.Outfitter(
            self._shown,
            cards,
            options.enforcement,
            check_library=options.check_library,
            limits_refuse=self._limits.refusal,
            reached=self._reach,
        )
        return allocate.Allocator(
            self._handover(cards, kube),
            outfitter,
            self._turn,
            self._completed,
            shown=self._shown,
            aligner=align.Aligner(options.node, options.mover),
            restorer=self._restorer,
        )

    def _reached(self, cards: inventory.Inventory) -> reach.Reach:
        options = self._options
        nodes = devnodes.DeviceNodes(options.dev_inside)
        written = specs.Specs(options.cdi, options.handing, nodes, options.dev_inside) if options.cdi else None
        return reach.Reach(options.handing, nodes, written, cards)

    def _handover(self, cards: inventory.Inventory, kube: api.Api) -> handover.Handover:
        options = self._options
        reader = patience.PatientReader(kube, self._stop.event)
        place = handover.Place(options.node, options.faces.main.resource, reader, self._record, cards)
        if options.annotations:
            return by_annotation.AnnotationHandover(place, kube)
        return by_checkpoint.CheckpointHandover(place)

    def _make_loops(self, cards: inventory.Inventory, kube: api.Api) -> tuple[loops.Loop, ...]:
        options, stop = self._options, self._stop
        keeper = registrar.Registrar(
            options.node,
            kube,
            self._shown,
            options.scaling,
            marked=not options.annotations,
            scores=options.scores,
            static=options.faces.strategy != offers.NONE,
            limits=lambda: self._limits.standing.state,
        )
        self._registering = loops.Loop("register", keeper.step, stop)
        made = [self._registering, loops.Loop("kubelet", self._links.step, stop)]
        made.append(loops.Loop("health", self._look, stop))
        directories = Path(options.enforcement.root) / "containers"
        tidier = tidy.Tidier(
            options.node,
            kube,
            self._record,
            cards,
            directories,
            self._turn,
            options.tidy_period_s,
            also=(
                self._restorer.for_pods,
                *((mig_owner.Owner(cards, self._record).clear,) if options.owns_mig else ()),
            ),
        )
        made.append(loops.Loop("tidy", tidier.step, stop))
        made.append(loops.Loop("library", self._limits.step, stop))
        if not options.annotations:
            self._beating = heartbeat.Heartbeat(options.node, kube)
            made.append(loops.Loop("heartbeat", self._beating.step, stop))
        if options.pod_resources and options.faces.strategy != offers.SINGLE:
            lister = books_watch.Lister(options.pod_resources, options.faces.main.resource)
            watch = books_watch.BooksWatch(
                options.node, kube, lister, self._record, self._shown, None if options.annotations else options.platform
            )
            made.append(loops.Loop("books", watch.step, stop))
        self._reporting = None
        if options.platform and not options.annotations:
            reporter = completion.Reporter(options.node, options.platform, self._record)
            self._reporting = loops.Loop("report", reporter.step, stop)
            made.append(self._reporting)
        return tuple(made)

    def _limiter(self) -> libvgpu.Limiter:
        options = self._options
        if options.enforcement.count_only:
            return libvgpu.CountOnly()
        return libvgpu.Library(options.library, self._relabel) if options.library else libvgpu.Unwatched()

    def _relabel(self) -> None:
        self._registering.poke()

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
            self._reach.show(self._shown.picture.cards)
            self._registering.poke()
        return wait_s

    def _completed(self) -> None:
        if self._reporting:
            self._reporting.poke()
