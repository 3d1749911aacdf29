"""Clears up after pods that are gone: their directories on the host, their records, their MIG instances.

A directory is removed only when its pod is not on the node any more and it has been quiet for a while, since a pod
that was deleted by force may still run. Must not know: what is in a directory.
Source of the directory's name: HAMi v2.10.0, `<pod uid>_<container>`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from deviceplugin import by_checkpoint, checkpoint, hostpaths, inventory, patience
from hami_platform import logs
from hami_platform.kube import api, calls, errors, objects

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
        self._quiet_s = quiet_s
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
        for path in left_behind(self._directories, {pod.metadata.uid for pod in pods}, self._now_s() - self._quiet_s):
            hostpaths.remove(path)
            log.info("directory_removed", path=str(path))
        return self._quiet_s


def left_behind(directories: Path, uids: Collection[str], before_s: float) -> list[Path]:
    """Directories whose pod is not among `uids` and that were last changed before this unix time."""
    found = []
    for path in sorted(directories.glob("*_*")):
        uid, _, container = path.name.partition("_")
        if uid and container and uid not in uids and path.is_dir() and path.stat().st_mtime < before_s:
            found.append(path)
    return found
