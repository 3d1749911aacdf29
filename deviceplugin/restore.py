"""Makes what containers were given be there again: directories and MIG instances do not outlive a reboot.

Nothing that is there is changed. Must not know: gRPC, the API server.
"""

from __future__ import annotations

from collections.abc import Sequence

from deviceplugin import checkpoint, grants, hostpaths, inventory
from deviceplugin.refusals import Reason, Refusal
from hami_platform import logs
from hami_platform.domain import devices
from hami_platform.kube import objects

log = logs.get(__name__)


class GoneError(Exception):
    """It cannot be had again; the message says what."""


class Restorer:
    """shared: the host's common lock directory is used."""

    def __init__(
        self,
        record: checkpoint.Checkpoint,
        cards: inventory.Inventory,
        enforcement: grants.Enforcement,
        *,
        shared: bool,
    ) -> None:
        self._record = record
        self._cards = cards
        self._enforcement = enforcement
        self._shared = shared

    def one(self, ids: Sequence[str]) -> Refusal | None:
        """What the container with these replica ids was given. Ids without a record are somebody else's, and fine."""
        for uid, entry in reversed(list(self._record.pods.items())):
            for given in entry.given:
                if given.ids and set(given.ids) == set(ids):
                    return self._refusal(uid, entry, given)
        return None

    def for_pods(self, pods: Sequence[objects.Pod]) -> None:
        """What all containers of these pods were given; what cannot be had again is logged."""
        uids = {pod.metadata.uid for pod in pods}
        for uid, entry in self._record.pods.items():
            for given in entry.given if uid in uids else ():
                if refusal := self._refusal(uid, entry, given):
                    log.error("not_restored", pod=f"{entry.namespace}/{entry.name}", uid=uid, error=refusal.message)

    def _refusal(self, uid: str, entry: checkpoint.PodRecord, given: checkpoint.Given) -> Refusal | None:
        try:
            self._restore(uid, given)
        except (GoneError, hostpaths.HostPathError, inventory.InventoryError) as error:
            message = f"pod {entry.namespace}/{entry.name}, container {given.container}: {error}"
            return Refusal(Reason.MIG if given.mig else Reason.HOST, message)
        return None

    def _restore(self, uid: str, given: checkpoint.Given) -> None:
        if not given.mig:
            hostpaths.ensure(self._enforcement.cache_of(uid, given.container))
            if self._shared:
                hostpaths.ensure(grants.SHARED_LOCKS)
        for number, (card, profile, start, size) in enumerate(given.mig):
            made = self._cards.realise(card, devices.MigUse(profile, devices.MigPlacement(start, size)))
            if given.instances and made.uuid != given.instances[number]:
                raise GoneError(f"its MIG instance {given.instances[number]} is gone, another is in its place")
