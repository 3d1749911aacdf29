"""What this node has already handed out: the record that kubelet's anonymous Allocate calls lack.

One small file, replaced atomically and synced before a container gets its devices, so that a
crash at any moment either repeats nothing or has handed out nothing.
Must not know: annotations, gRPC, or how completion is reported.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from hami_platform import logs

VERSION = 1

log = logs.get(__name__)


class CheckpointError(Exception):
    """The file cannot be written: nothing may be handed out."""


class HeldError(Exception):
    """Another agent on this node uses the same record: two would hand out the same rows."""


def hold(path: Path) -> BinaryIO:
    """Keep the record to this process for as long as the returned file is open. Raises HeldError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_suffix(".lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise HeldError(f"{path}: another agent uses this record") from error
    return lock


Placed = tuple[str, str, int, int]
"""Where a MIG instance is: card, profile, start, size."""


class Given(msgspec.Struct, frozen=True):
    """One container that has its devices. mig: instances it got, as card, profile, start, size; instances: their uuids.

    reported: the platform knows. ids: the replica ids that the kubelet passed; empty in records of older agents.
    """

    container: str
    devices: tuple[str, ...]
    mig: tuple[Placed, ...] = ()
    reported: bool = False
    ids: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()


class PodRecord(msgspec.Struct, frozen=True):
    """What one pod was given, in the order of the calls."""

    namespace: str
    name: str
    given: tuple[Given, ...] = ()


class _File(msgspec.Struct, frozen=True):
    version: int
    pods: dict[str, PodRecord]
    begun: tuple[Placed, ...] = ()


class Checkpoint:
    """Pods by uid. Readers get an immutable mapping; every change is on disk before it is seen."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        stored = _read(path)
        self._pods: Mapping[str, PodRecord] = stored.pods
        self._begun = frozenset(stored.begun)

    @property
    def pods(self) -> Mapping[str, PodRecord]:
        """All records, by pod uid."""
        return self._pods

    @property
    def begun(self) -> frozenset[Placed]:
        """Instances that were about to be made, and are neither given to a container nor destroyed."""
        return self._begun

    def begin(self, place: Placed) -> None:
        """An instance is about to be made. Raises CheckpointError."""
        with self._lock:
            self._replace(self._pods, self._begun | {place})

    def done_with(self, place: Placed) -> None:
        """It was destroyed. Raises CheckpointError."""
        with self._lock:
            if place in self._begun:
                self._replace(self._pods, self._begun - {place})

    def served(self, uid: str) -> frozenset[str]:
        """Containers of this pod that have their devices."""
        record = self._pods.get(uid)
        return frozenset(entry.container for entry in record.given) if record else frozenset()

    def add(self, uid: str, namespace: str, name: str, given: Sequence[Given]) -> None:
        """Store what a pod was given besides what it has. Raises CheckpointError; then nothing is stored."""
        with self._lock:
            before = self._pods[uid].given if uid in self._pods else ()
            pods = {**self._pods, uid: PodRecord(namespace, name, (*before, *given))}
            self._replace(pods, self._begun - {place for one in given for place in one.mig})

    def reported(self, uid: str, container: str) -> None:
        """The platform knows that this container was served. A pod that is gone meanwhile is fine."""
        with self._lock:
            if record := self._pods.get(uid):
                given = tuple(
                    msgspec.structs.replace(one, reported=one.reported or one.container == container)
                    for one in record.given
                )
                self._replace({**self._pods, uid: msgspec.structs.replace(record, given=given)})

    def keep(self, uids: Collection[str]) -> Mapping[str, PodRecord]:
        """Forget every pod that is not in `uids`; returns what was forgotten."""
        with self._lock:
            gone = {uid: record for uid, record in self._pods.items() if uid not in uids}
            if gone:
                self._replace({uid: record for uid, record in self._pods.items() if uid in uids})
            return gone

    def _replace(self, pods: Mapping[str, PodRecord], begun: frozenset[Placed] | None = None) -> None:
        begun = self._begun if begun is None else begun
        try:
            _write(self._path, msgspec.json.encode(_File(VERSION, dict(pods), tuple(sorted(begun)))))
        except OSError as error:
            raise CheckpointError(f"{self._path}: {error.strerror}") from error
        self._pods, self._begun = pods, begun


def _read(path: Path) -> _File:
    """The stored records. A file that cannot be read is put aside, loudly.

    Losing it is safe, since a pod whose rows look unconsumed makes the next Allocate
    ambiguous, and an ambiguous one is refused.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=_File)
    except FileNotFoundError:
        return _File(VERSION, {})
    except msgspec.MsgspecError as error:
        aside = path.with_suffix(".unreadable")
        path.replace(aside)
        log.error("checkpoint_unreadable", path=str(path), kept_as=str(aside), error=str(error))
        return _File(VERSION, {})


def _write(path: Path, data: bytes) -> None:
    """Replace a file so that a power cut leaves the old or the new one, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
