"""The watcher: follows nodes, pods and quotas, and hands what it sees to the services. One is active, others stand by.

It decides nothing. Its writes carry the epoch of its lease, so that one which was stopped and comes back cannot write
any more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from django.db import InterfaceError, OperationalError, connection

from accounting import ledger, live_view
from accounting.services import (
    flights,
    leases,
    lingering,
    native_quotas,
    nodes,
    observe,
    office,
    reconcile,
    seen,
    wake,
    wake_calls,
    watch_terms,
)
from accounting.services.node_seen import NodeSeen
from hami_platform import logs, metrics
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.view import View
from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors, feed, listwatch

LEASE_S = 15.0
RENEW_S = 4.0
LEASES_TICK_S = 2.0
WAKE_TICK_S = 1.0
SETTLE_TICK_S = 5.0
LINGER_TICK_S = 0.25
TAKE_S = 0.2
PACE_S = 0.05
"""In a burst what comes within so long is recorded by one ledger transaction: pods start one by one."""
UNREACHABLE = (ledger.LedgerUnavailable, OperationalError, InterfaceError)
"""What a database that is away looks like; leases are taken outside the ledger's transaction."""

log = logs.get(__name__)
_fenced = metrics.counter(
    "hami_platform_fenced_total", "Terms of office of this watcher that ended because another one had taken over."
)
Object = Mapping[str, Any]


class Watcher:
    """Run it with `run`; `stop` may come from a signal handler."""

    def __init__(self, api: ports.Api, config: DeviceConfig, holder: str) -> None:
        self._api, self._config, self._holder = api, config, holder
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End `run` within a fraction of a second."""
        self._stopped.set()

    def run(self) -> None:
        """Stand by for the lease, work under it, until stopped."""
        while not self._stopped.is_set():
            try:
                epoch = take_office(self._holder)
                if epoch is None:
                    self._stopped.wait(RENEW_S)
                    continue
                log.info("watching", holder=self._holder, epoch=epoch)
                watch_terms.term_begin(holder=self._holder, epoch=epoch)
                Term(self._api, self._config, self._holder, epoch, self._stopped).run()
            except ledger.Fenced as over:
                _fenced.inc()
                log.warning("fenced", holder=self._holder, why=str(over))
            except (*UNREACHABLE, errors.KubeError) as fault:
                log.warning("watch_interrupted", why=str(fault))
                connection.close()  # a broken one would fail at every later try: no request ends here and closes it
                ledger.dead_drop()
                self._stopped.wait(1.0)
        office.OFFICE.held(None, asked_s=0, ttl_s=0)
        try:
            flights.lease_drop(name=ledger.WATCHER, holder=self._holder)
        except UNREACHABLE:
            log.warning("lease_left", holder=self._holder)


class Term:
    """One term of office: everything in it is written under one epoch."""

    def __init__(self, api: ports.Api, config: DeviceConfig, holder: str, epoch: int, stopped: threading.Event) -> None:
        self._api, self._config, self._holder, self._epoch, self._stopped = api, config, holder, epoch, stopped
        self._freed = wake.Freed()
        self._lingering = lingering.Lingering()
        self._listed: set[str] = set()
        self._nodes_asked = False
        self._early: list[feed.Part] = []
        # What is kept of each object, made as soon as it comes: of thousands as they come there is no room for all.
        self._read: dict[str, Callable[[Object], Any]] = {
            "nodes": lambda node: reconcile.managed_node(node, config),
            "quotas": lambda quota: quota,
            "pods": lambda pod: seen.from_object(pod, config),
        }
        self._every = {
            self._renew: RENEW_S, self._leases: LEASES_TICK_S, self._wake: WAKE_TICK_S, self._settle: SETTLE_TICK_S,
            self._lingered: LINGER_TICK_S,
        }  # fmt: skip
        self._due = dict.fromkeys(self._every, 0.0)

    def run(self) -> None:
        """Apply what the API server shows, and tick, until stopped or fenced."""
        sources = {
            name: listwatch.Reflector(self._api, listing.whole(), keep=self._read[name])
            for name, listing in (("nodes", calls.nodes()), ("quotas", calls.quotas()), ("pods", calls.pods()))
        }
        with feed.Feed(sources, pace_s=PACE_S) as parts:
            while not self._stopped.is_set():
                for part in parts.take(wait_s=TAKE_S):
                    self.take(part)
                self._tick()

    def take(self, part: feed.Part) -> None:
        """Apply a part; pods wait until the nodes were listed, or could not be: what a pod holds is of a model, which
        only its node says."""
        if part.source == "pods" and not self._nodes_asked:
            self._early.append(part)
            return
        self._apply(part)
        if part.source == "nodes" and not self._nodes_asked:
            self._nodes_asked = True
            for pods in self._early:
                self._apply(pods)
            self._early = []

    def _tick(self) -> None:
        for step in self._due:
            self._if_due(step)

    def _if_due(self, step: Callable[[], None]) -> None:
        if time.monotonic() >= self._due[step]:
            step()
            self._due[step] = time.monotonic() + self._every[step]

    def _keep_office(self) -> None:
        """In a burst what one look at the API server brought may take longer than the lease lasts."""
        self._if_due(self._renew)

    def _renew(self) -> None:
        if take_office(self._holder) != self._epoch:
            raise ledger.Fenced(f"the lease of epoch {self._epoch} is over")

    def _leases(self) -> None:
        leases.leases_tick(fence=self._epoch)

    def _wake(self) -> None:
        if live_view.live().refresh().ready:
            wake_calls.wake_send(self._api, wake.wake_plan(self._freed, fence=self._epoch))

    def _settle(self) -> None:
        """A node's lock rests on each binding whose process died: nothing else can be bound there meanwhile."""
        reconcile.bindings_settle(self._api, config=self._config, fence=self._epoch)

    def _apply(self, part: feed.Part) -> None:
        if isinstance(part.batch, listwatch.Failed):
            log.warning("watch_failed", source=part.source, why=str(part.batch.error))
            return
        handles: dict[str, Callable[..., None]]
        handles = {"nodes": self._nodes, "quotas": self._quotas, "pods": self._pods}
        handle = handles[part.source]
        if isinstance(part.batch, listwatch.Listed):
            handle(list(part.batch.items), [], complete=True)
            self._compared(part.source)
        else:
            latest, deleted = split(part.batch.events)
            handle([self._read[part.source](one) for one in latest], deleted, complete=False)

    def _compared(self, source: str) -> None:
        self._listed.add(source)
        if self._listed >= {"nodes", "quotas", "pods"}:
            reconcile.compared(fence=self._epoch)

    def _nodes(self, shown: list[NodeSeen | None], deleted: list[Object], *, complete: bool) -> None:
        found = [one for one in shown if one is not None]
        reconcile.nodes_apply(
            self._api, found, config=self._config, complete=complete, fence=self._epoch, between=self._keep_office
        )
        if deleted:
            nodes.nodes_gone([one["metadata"]["name"] for one in deleted], fence=self._epoch)

    def _quotas(self, objects: list[Object], deleted: list[Object], *, complete: bool) -> None:
        native_quotas.native_quotas_observe(objects, config=self._config, complete=complete, fence=self._epoch)
        for one in deleted:
            meta = one["metadata"]
            native_quotas.native_quota_gone(namespace=meta["namespace"], name=meta["name"], fence=self._epoch)

    def _pods(self, found: list[seen.PodSeen], deleted: list[Object], *, complete: bool) -> None:
        before = live_view.live().refresh()
        gone = [one["metadata"]["uid"] for one in deleted]
        if complete:
            self._lingering.clear()
            self._observe(found)
            reconcile.missing_release(self._api, before, {one.uid for one in found}, fence=self._epoch)
        else:
            now = self._lingering.now(before, found, time.monotonic())
            self._observe(now + self._lingering.forgotten(gone), before)
        observe.pods_gone(gone, fence=self._epoch, between=self._keep_office)

    def _lingered(self) -> None:
        self._observe(self._lingering.due(time.monotonic()))

    def _observe(self, found: list[seen.PodSeen], view: View | None = None) -> None:
        observe.pods_observe(found, config=self._config, fence=self._epoch, between=self._keep_office, view=view)


def take_office(holder: str) -> int | None:
    """Take or renew the watcher's lease: the epoch, or None while somebody else has it."""
    asked_s = office.OFFICE.now_s()
    epoch = flights.lease_take(name=ledger.WATCHER, holder=holder, ttl_s=LEASE_S)
    office.OFFICE.held(epoch, asked_s=asked_s, ttl_s=LEASE_S)
    return epoch


def split(events: tuple[listwatch.Event[Object], ...]) -> tuple[list[Object], list[Object]]:
    """(the last state of each object that is there, the objects that were deleted and did not come back), by uid."""
    latest: dict[str, Object] = {}
    deleted: dict[str, Object] = {}
    for event in events:
        uid = event.object["metadata"]["uid"]
        (deleted if event.deleted else latest)[uid] = event.object
        if event.deleted:
            latest.pop(uid, None)
    return list(latest.values()), list(deleted.values())
