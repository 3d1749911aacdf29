"""One round of monitoring: read the regions of the containers that run, steer their libraries, measure the cards.

What is wrong with a region is told once in the log when it begins and when it is over, and counted in metrics; it never
ends a round. Must not know: HTTP, the API server's calls, how metrics are named.
Source of the period and of what is steered: HAMi v2.10.0 monitor.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from deviceplugin import (
    board,
    checkpoint,
    feedback,
    inventory,
    monitor_claims,
    monitor_meters,
    monitor_pods,
    monitor_samples,
    region,
    region_files,
)
from deviceplugin.monitor_use import CardUse, ContainerUse, Measuring, MigUse, Picture
from deviceplugin.region_files import Owner
from hami_platform import logs
from hami_platform.domain import devices
from hami_platform.domain.wire import mig_allocations
from hami_platform.kube import objects

PERIOD_S: Final = 5.0
UNREADABLE: Final = "unreadable"

log = logs.get(__name__)

Pods = Mapping[str, objects.Pod]


class PodSource(Protocol):
    """Where the node's pods come from."""

    def known(self) -> Pods | None:
        """By uid; None before anything is known."""
        ...


@dataclass(frozen=True, slots=True)
class Read:
    """A container whose region could be read."""

    use: ContainerUse
    found: region.Region
    believed: monitor_claims.Believed


@dataclass(frozen=True, slots=True)
class Options:
    """directories: `vgpu/containers`. steer False: only look, where another monitor steers. memory_scaling: how far a
    card's memory may be promised beyond what it has."""

    directories: Path
    steer: bool = True
    memory_scaling: float = 1.0
    period_s: float = PERIOD_S


class Monitor:
    """A step for a Loop. `picture` may be read by any thread."""

    def __init__(
        self,
        options: Options,
        pods: PodSource,
        shown: board.Board,
        record: checkpoint.Checkpoint,
        cards: inventory.Inventory,
        samples: monitor_samples.Samples | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._options = options
        self._pods = pods
        self._shown = shown
        self._record = record
        self._cards = cards
        self._samples = samples
        self._now_s = now_s
        self._ill: dict[Owner, frozenset[str]] = {}
        self._lock = threading.Lock()
        self._picture = Picture()

    @property
    def picture(self) -> Picture:
        """What the last round saw."""
        with self._lock:
            return self._picture

    def step(self) -> float:
        """One round. Before the pods are known the cards are measured and no region is touched."""
        known = self._pods.known()
        pods: Pods = known if known is not None else {}
        with monitor_meters.ROUND_S.time():
            found = self._round(pods)
        with self._lock:
            self._picture = found
        monitor_meters.ROUND_AT.set(found.at_s)
        monitor_meters.REGIONS.set(len(found.containers))
        if self._samples is not None:
            self._samples.add(found)
        return self._options.period_s if known is not None else min(1.0, self._options.period_s)

    def _round(self, pods: Pods) -> Picture:
        read, ill = self._read_all(pods)
        if self._options.steer:
            self._steer(read)
        self._tell(ill)
        return Picture(
            at_s=self._now_s(),
            cards=self._measured(),
            containers=tuple(one.use for one in read.values()),
            instances=tuple(self._instances(pods)),
            problems=Counter(problem for words in ill.values() for problem in words),
        )

    def _read_all(self, pods: Pods) -> tuple[dict[Owner, Read], dict[Owner, frozenset[str]]]:
        """(regions of containers that run, words for what is wrong by container)."""
        read: dict[Owner, Read] = {}
        ill: dict[Owner, frozenset[str]] = {}
        memory = {
            card.uuid: int(card.memory_mib * monitor_pods.MIB * max(1.0, self._options.memory_scaling))
            for card in self._shown.picture.cards
        }
        for owner in self._owners():
            pod = pods.get(owner.uid)
            container = monitor_pods.running(pod).get(owner.container) if pod else None
            if pod is None or container is None:
                continue
            try:
                found = self._region(owner)
            except region.RegionError as error:
                ill[owner] = frozenset((error.problem,))
                self._first(owner, error.problem, pod, str(error))
                continue
            except OSError as error:
                ill[owner] = frozenset((UNREADABLE,))
                self._first(owner, UNREADABLE, pod, str(error.strerror))
                continue
            if found is None:
                continue
            due = monitor_pods.entitlement(pod, container, self._record.pods.get(owner.uid))
            believed = monitor_claims.believe(found, due, memory)
            for problem in believed.problems:
                ill[owner] = believed.problems
                self._first(owner, problem, pod, "")
            read[owner] = Read(_use(pod, owner, found, believed), found, believed)
        return read, ill

    def _owners(self) -> list[Owner]:
        try:
            return region_files.owners(self._options.directories)
        except OSError as error:
            log.error("containers_unreadable", path=str(self._options.directories), error=str(error.strerror))
            return []

    def _region(self, owner: Owner) -> region.Region | None:
        with region_files.opened(self._options.directories, owner, writable=False) as file:
            return None if file is None else region.read(file)

    def _steer(self, read: Mapping[Owner, Read]) -> None:
        members = {owner.directory: one.believed.member for owner, one in read.items()}
        decided = feedback.decide(members, self._now_s(), self._options.period_s)
        for owner, one in read.items():
            words = decided[owner.directory]
            if words != one.found.words or one.believed.limits_bytes:
                self._write(owner, one, words)

    def _write(self, owner: Owner, one: Read, words: region.Words) -> None:
        """Set the words, and the limits that were changed.

        A launch since the region was read stays marked, unless the container is to be blocked.
        """
        found = one.found
        try:
            with region_files.opened(self._options.directories, owner, writable=True) as file:
                if file is None or region.layout_of(file) != found.layout:
                    return
                now = region.read_words(file, found.layout)
                recent = words.recent if now.recent == found.words.recent or words.recent < 0 else now.recent
                written = region.write_words(file, found.layout, now, region.Words(recent, words.switch))
                monitor_meters.STEERED.inc(written)
                for index, limit_bytes in one.believed.limits_bytes.items():
                    region.write_limit(file, found.layout, index, limit_bytes)
                    monitor_meters.RESTORED.inc()
        except (region.RegionError, OSError) as error:
            log.warning("region_not_written", pod=owner.uid, container=owner.container, error=str(error))

    def _measured(self) -> tuple[CardUse, ...]:
        if not isinstance(self._cards, Measuring):
            return ()
        try:
            return self._cards.use()
        except inventory.InventoryError as error:
            monitor_meters.UNMEASURED.inc()
            log.warning("cards_not_measured", error=str(error))
            return ()

    def _instances(self, pods: Pods) -> Iterator[MigUse]:
        """MIG instances of containers that run, with their ids by the annotation, or as the card has them."""
        for pod in pods.values():
            alive = monitor_pods.running(pod)
            for name, one in monitor_pods.instances(pod):
                instance = self._instance(one)
                if instance is not None and name in alive:
                    yield MigUse(
                        namespace=pod.metadata.namespace,
                        pod=pod.metadata.name,
                        container=name,
                        index=one.device_index,
                        card=one.gpu_uuid,
                        uuid=instance.uuid,
                        profile=one.profile,
                        gpu_instance=instance.gpu_instance_id,
                        compute_instance=instance.compute_instance_id,
                    )

    def _instance(self, one: mig_allocations.Allocation) -> inventory.MigInstance | None:
        if one.runtime is not None:
            return inventory.MigInstance(one.runtime.mig_uuid, one.runtime.gpu_instance, one.runtime.compute_instance)
        card = self._shown.picture.card(one.gpu_uuid)
        made = card.partitions if card is not None else ()
        return next((p.instance for p in made if devices.MigUse(p.profile, p.placement) == one.use), None)

    def _first(self, owner: Owner, problem: str, pod: objects.Pod, detail: str) -> None:
        """Say so once."""
        if problem in self._ill.get(owner, frozenset()):
            return
        monitor_meters.FOUND.labels(problem).inc()
        named = f"{pod.metadata.namespace}/{pod.metadata.name}"
        log.warning("region_problem", problem=problem, pod=named, container=owner.container, detail=detail)

    def _tell(self, ill: dict[Owner, frozenset[str]]) -> None:
        """Show how many regions have each problem; one that nobody has any more shows 0."""
        for owner in self._ill.keys() - ill.keys():
            log.info("region_well_again", pod=owner.uid, container=owner.container)
        counts = Counter(problem for words in ill.values() for problem in words)
        for problem in {problem for words in self._ill.values() for problem in words} | counts.keys():
            monitor_meters.PROBLEMS.labels(problem).set(counts[problem])
        self._ill = ill


def _use(pod: objects.Pod, owner: Owner, found: region.Region, believed: monitor_claims.Believed) -> ContainerUse:
    return ContainerUse(
        namespace=pod.metadata.namespace,
        pod=pod.metadata.name,
        uid=owner.uid,
        container=owner.container,
        devices=believed.devices,
        last_kernel_s=found.last_kernel_s,
    )
