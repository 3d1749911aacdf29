"""Clears up after pods that are gone: their directories on the host, their records, their MIG instances.

A directory is removed only when its pod is not on the node any more and it has been quiet for a while, since a pod
that was deleted by force may still run. Must not know: what is in a directory.
Source of the directory's name: HAMi v2.10.0, `<pod uid>_<container>`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from deviceplugin import by_checkpoint, checkpoint, inventory, patience, region_files, removal
from hami_platform import logs
from hami_platform.kube import api, calls, errors, objects

LEAST_S = 1.0
"""Between two passes, whatever the setting says."""

log = logs.get(__name__)


class Tidier:
    """A step for a Loop. quiet_s: age of a directory without its pod at which it is removed, and the period.

    also: what else looks at the pods of the node at each pass, with the turn.
    """

    def __init__(
        self,
        node: str,
        kube: api.Api,
        record: checkpoint.Checkpoint,
        cards: inventory.Inventory,
        directories: Path,
        turn: threading.Lock,
        quiet_s: float,
        *,
        also: Sequence[Callable[[Sequence[objects.Pod]], None]] = (),
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._node = node
        self._kube = kube
        self._record = record
        self._cards = cards
        self._directories = directories
        self._turn = turn
        self._quiet_s = max(LEAST_S, quiet_s)
        self._also = also
        self._now_s = now_s

    def step(self) -> float:
        """One pass, with the turn for as long as it may forget something.

        Without an answer from the API server nothing is removed.
        """
        try:
            with self._turn:
                pods = self._kube.send(calls.pods(node=self._node).page(), timeout_s=patience.TIMEOUT_S).items
                by_checkpoint.sweep(self._record, self._cards, pods)
                for look in self._also:
                    look(pods)
        except errors.KubeError as error:
            log.warning("not_tidied", node=self._node, error=str(error))
            return self._quiet_s
        self._remove({pod.metadata.uid for pod in pods})
        return self._quiet_s

    def _remove(self, uids: Collection[str]) -> None:
        found = left_behind(self._directories, uids, self._now_s() - self._quiet_s)
        if not found or (not uids and not self._is_ours()):
            return
        for path in found:
            if removal.remove(path):
                log.info("directory_removed", path=str(path))
            else:
                log.warning("directory_not_removed", path=str(path))

    def _is_ours(self) -> bool:
        """Whether there is such a node: under a wrong name every list is empty, and what runs looks left behind."""
        try:
            self._kube.send(calls.node_get(name=self._node), timeout_s=patience.TIMEOUT_S)
        except errors.KubeError as error:
            log.error("not_tidied", node=self._node, error=str(error))
            return False
        return True


def left_behind(directories: Path, uids: Collection[str], before_s: float) -> list[Path]:
    """Directories whose pod is not among `uids` and that were last changed before this unix time."""
    try:
        owners = region_files.owners(directories)
    except OSError as error:
        log.error("containers_unreadable", path=str(directories), error=str(error.strerror))
        return []
    paths = (directories / owner.directory for owner in owners if owner.uid not in uids)
    return [path for path in paths if _changed_s(path) < before_s]


def _changed_s(path: Path) -> float:
    """When its entries last changed; for one that is gone meanwhile, never."""
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return math.inf
