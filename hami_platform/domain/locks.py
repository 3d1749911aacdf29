"""Who may allocate on a node now: the rules for its lock annotation. Must not know: nodes, pods, the clock, the API.

Ages count from when we first saw a value, since the writer's clock is not ours. Source of the protocol: HAMi v2.10.0.
Unlike there, age alone never takes a lock from a pod that waits for its devices: two such pods would swap limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hami_platform.domain import errors
from hami_platform.domain.wire import node_lock

TIMEOUT_S = 300.0
"""After so long a lock without a known owner, or one that cannot be read, no longer counts (HAMi: nodeLockExpire)."""
STUCK_S = 30.0
"""A lock older than this takes its node out of /filter: an allocation takes milliseconds."""


class HolderState(StrEnum):
    """What is known of the pod that a lock names.

    WAITING: alive, and its devices are not handed out yet; a pod that is being deleted but still there counts as such.
    DONE: allocated, terminal, gone, or another pod (uid) of the same name. UNKNOWN: could not be found out.
    """

    WAITING = "waiting"
    DONE = "done"
    UNKNOWN = "unknown"


class State(StrEnum):
    """FREE: take it (over). MINE: held already by the asking pod. BUSY: try again later."""

    FREE = "free"
    MINE = "mine"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer to who asks for a lock.

    why: a sentence for people. alarm: somebody should look at this node. replaces: the exact value that must still
    stand there when the lock is taken over, None when the node has none.
    """

    state: State
    why: str = ""
    alarm: bool = False
    replaces: str | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """The asking pod, as the annotation names it."""

    namespace: str
    name: str


def judge(
    value: str | None,
    *,
    first_seen_age_s: float,
    holder: HolderState,
    me: Owner,
    timeout_s: float = TIMEOUT_S,
) -> Judgement:
    """Whether `me` may take the lock with this value now.

    holder is the state of the pod that the value names (ignored for values without an owner). For a value that names
    `me` it must be DONE when that was an earlier pod of the same name: then the lock is not inherited.
    """
    if value is None:
        return Judgement(State.FREE)
    try:
        lock = node_lock.decode(value)
    except errors.WireError as error:
        return _by_age(value, first_seen_age_s, timeout_s, f"unreadable lock: {error}", alarm=True)
    if not lock.owned:
        return _by_age(value, first_seen_age_s, timeout_s, "lock without an owner", alarm=False)
    if holder is HolderState.DONE:
        return Judgement(State.FREE, f"{lock.namespace}/{lock.name} needs the lock no more", replaces=value)
    if lock.owned_by(me.namespace, me.name):
        return Judgement(State.MINE)
    late = first_seen_age_s >= 2 * timeout_s
    why = f"locked by {lock.namespace}/{lock.name} for {first_seen_age_s:.0f} s"
    return Judgement(State.BUSY, why if holder is HolderState.WAITING else f"{why}, whose state is unknown", alarm=late)


def may_release(value: str | None, me: Owner) -> bool:
    """Whether `me` may remove this value: its own, or one without an owner. Whole names are compared."""
    if value is None:
        return False
    try:
        lock = node_lock.decode(value)
    except errors.WireError:
        return False
    return not lock.owned or lock.owned_by(me.namespace, me.name)


def stuck(first_seen_age_s: float) -> bool:
    """Whether a lock of this age takes its node out of /filter (NodeLocked)."""
    return first_seen_age_s > STUCK_S


def _by_age(value: str, age_s: float, timeout_s: float, why: str, *, alarm: bool) -> Judgement:
    """A value that names nobody holds for one timeout from when we first saw it."""
    if age_s < timeout_s:
        return Judgement(State.BUSY, f"{why}; counts for another {timeout_s - age_s:.0f} s")
    return Judgement(State.FREE, f"{why}; timed out", alarm=alarm, replaces=value)
