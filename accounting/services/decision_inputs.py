"""What a decision was taken on, as pieces that several decisions share, and back.

A decision over thousands of nodes is taken on all of them, and between two decisions hardly one changes. So nodes are
pieces, lists of pieces are pieces, and the hash of the whole names the whole. Must not know: where pieces are kept.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from accounting.services import claims
from hami_platform.domain import place
from hami_platform.domain.devices import Device
from hami_platform.domain.nodes import DeviceState, NodeState
from hami_platform.domain.quota import Headroom
from hami_platform.domain.reasons import Reason
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.states import States

VERSION: Final = 1
BUCKETS: Final = 64
"""Lists of nodes. A changed node costs its own piece, one list, and the list of lists."""
_DIGEST_BYTES: Final = 16
_MARK: Final = ord("1")
_POLITE: Final = 32
"""Nodes that are spelled in one go: decisions wait for the interpreter meanwhile."""

_WORDS: Final = (
    b'"names":["","","","","",{"version":1,"steps":[{"type":"claim","mode":"enforce","pending":0,"kinds":{'
    b'{"type":"choice","request":{"containers":[{"name":"main","kind":"app","devices":[{"vendor":"NVIDIA","count":1,'
    b'"memory_mib":,"memory_percent":null,"core_percent":0}]}],"constraints":{"node_policy":null,"device_policy":null,'
    b'"use_models":null,"nouse_models":null,"use_uuids":null,"nouse_uuids":null,"numa_bind":false,"vgpu_mode":null,'
    b'"weights":{"slot":1,"core":1,"memory":1},"notes":[],"by_vendor":[]}},"headroom":{"rules":[[{"name":"/default",'
    b'"selector":{"vendor":"","model_pattern":""},"limits":{"devices":null,"memory_mib":null,"core_percent":null,'
    b'"pod_devices":null,"pod_memory_mib":null,"pod_core_percent":null,"device_memory_mib":null}},{"devices":0,'
    b'"memory_mib":0,"core_percent":0}]],"enforced":true},"defaults":{"node_policy":"binpack","device_policy":"spread",'
    b'"whole_card_as_largest_profile":false},"nodes":"","candidates":"","strangers":"","config":""}]}'
    b'[{"device":{"uuid":"GPU-","index":0,"vendor":"NVIDIA","model":"NVIDIA-NVIDIA ","memory_mib":,"core_percent":100,'
    b'"slots":10,"numa":0,"mode":"hami-core","healthy":true,"mig_profiles":[],"cordoned":false,"reserved_mib":0,'
    b'"custom":[]},"held":{"slots":0,"memory_mib":0,"core_percent":0,"mig":[],"notes":[]}},'
)
"""What small pieces are full of, so that it need not be in each. Part of the format: another one is another VERSION."""


class Claim(msgspec.Struct, frozen=True, tag="claim"):
    """A judgement by the limits alone."""

    mode: str
    request: PodRequest
    headroom: Headroom
    kinds: dict[str, tuple[Device, ...]]
    pending: int = 0


class Choice(msgspec.Struct, frozen=True, tag="choice"):
    """A choice among nodes. nodes: digest of the list of lists. candidates: a bit for each node by name. strangers,
    config: digests of candidates that are no node of ours, and of the device configuration; empty: none, the
    defaults."""

    request: PodRequest
    headroom: Headroom
    defaults: place.Defaults
    nodes: str
    candidates: bytes
    strangers: str = ""
    config: str = ""


class Inputs(msgspec.Struct, frozen=True):
    """All of it, in order: a claim if the limits decided, then choices; of two the first found the node and the second
    looked whether it still fits."""

    version: int
    steps: tuple[Claim | Choice, ...]


@dataclass(frozen=True, slots=True)
class Grounds:
    """The same while the decision is fresh: what it holds is shared with the View."""

    basis: claims.Basis | None = None
    choices: tuple[place.Decision, ...] = ()

    def __bool__(self) -> bool:
        return self.basis is not None or bool(self.choices)


class Missing(Exception):
    """A piece that is not there: which part it was of."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


class Source(Protocol):
    """Where pieces come from: by digest, packed, as many of them as there are."""

    def __call__(self, digests: Iterable[str], /) -> Mapping[str, bytes]: ...


class Pieces(dict[str, bytes]):
    """Pieces by digest, packed."""

    def __init__(self) -> None:
        super().__init__()
        self.size_bytes = 0

    def put(self, raw: bytes) -> str:
        """The piece's digest."""
        digest = digest_of(raw)
        if digest not in self:
            self[digest] = body = packed(raw)
            self.size_bytes += len(body)
        return digest


def digest_of(raw: bytes) -> str:
    """By which a piece is known."""
    return hashlib.blake2b(raw, digest_size=_DIGEST_BYTES).hexdigest()


def packed(raw: bytes) -> bytes:
    """The stored form of a piece."""
    packer = zlib.compressobj(wbits=-15, zdict=_WORDS)
    return packer.compress(raw) + packer.flush()


def unpacked(body: bytes) -> bytes:
    """A piece from its stored form."""
    unpacker = zlib.decompressobj(wbits=-15, zdict=_WORDS)
    return unpacker.decompress(body) + unpacker.flush()


class Speller:
    """Spells decisions one after the other. A node that is the same as in the last one is not looked at again, so all
    that one Speller puts into Pieces must be kept in one place."""

    def __init__(self) -> None:
        self._seen: dict[str, NodeState] = {}
        self._last: States | None = None
        self._digests: list[dict[str, bytes]] = [{} for _ in range(BUCKETS)]
        self._lists: dict[int, bytes] = {}
        self._root = ""
        self._position: dict[str, int] = {}

    def spell(self, grounds: Grounds, config: str, pieces: Pieces) -> str:
        """Put what is new into pieces; the hash of the whole. Raises ValueError, OverflowError or TypeError for what
        has no spelling: then this Speller is of no more use."""
        steps: list[Claim | Choice] = []
        if grounds.basis is not None:
            own = grounds.basis
            steps.append(Claim(own.mode, own.request, own.headroom, dict(sorted(own.kinds.items())), own.pending))
        steps += (self._choice(one, config, pieces) for one in grounds.choices)
        return pieces.put(msgspec.json.encode(Inputs(VERSION, tuple(steps))))

    def _choice(self, decision: place.Decision, config: str, pieces: Pieces) -> Choice:
        question = decision.question
        root = self._nodes(question.nodes, pieces)
        self._last = question.nodes if isinstance(question.nodes, States) else None
        bits, strangers = self._candidates(question.candidates)
        return Choice(
            question.request, question.headroom, question.defaults, root, bits,
            pieces.put("\n".join(strangers).encode()) if strangers else "",
            pieces.put(config.encode()) if config else "",
        )  # fmt: skip

    def _candidates(self, candidates: Iterable[str]) -> tuple[bytes, list[str]]:
        names = list(candidates)
        places = list(map(self._position.get, names))
        strangers = sorted(name for name, place_ in zip(names, places, strict=True) if place_ is None)
        marks = bytearray(b"0" * len(self._position))
        for place_ in places:
            if place_ is not None:
                marks[place_] = _MARK
        bits = int(marks[::-1] or b"0", 2)  # the first node is the lowest bit
        return bits.to_bytes(-(-len(marks) // 8), "little"), strangers

    def _nodes(self, nodes: Mapping[str, NodeState], pieces: Pieces) -> str:
        seen, names = self._seen, self._may_differ(nodes)
        changed = [name for name in names if name in nodes and seen.get(name) is not nodes[name]]
        gone = [name for name in names if name in seen and name not in nodes]
        if not changed and not gone and self._root:
            return self._root
        if gone or any(name not in seen for name in changed):
            self._position = {name: place_ for place_, name in enumerate(sorted(nodes))}
        touched = {self._forget(name) for name in gone}
        for count, name in enumerate(changed, start=1):
            touched.add(self._put(name, nodes[name], pieces))
            if count % _POLITE == 0:
                time.sleep(0)
        for bucket in touched:
            self._list(bucket, pieces)
        self._root = pieces.put(b"".join(self._lists[bucket] for bucket in sorted(self._lists)))
        return self._root

    def _may_differ(self, nodes: Mapping[str, NodeState]) -> Iterable[str]:
        """Names of nodes that are not as they were in the last decision. A batch may go back to an earlier one."""
        if isinstance(nodes, States) and self._last is not None:
            names = nodes.changed_since(self._last)
            names = self._last.changed_since(nodes) if names is None else names
            if names is not None:
                return names
        return nodes.keys() | self._seen.keys()

    def _list(self, bucket: int, pieces: Pieces) -> None:
        entries = self._digests[bucket]
        if entries:
            self._lists[bucket] = bytes.fromhex(pieces.put(b"".join(entries[name] for name in sorted(entries))))
        else:
            del self._lists[bucket]

    def _forget(self, name: str) -> int:
        del self._seen[name]
        bucket = _bucket(name)
        del self._digests[bucket][name]
        return bucket

    def _put(self, name: str, state: NodeState, pieces: Pieces) -> int:
        bucket = _bucket(name)
        self._digests[bucket][name] = bytes.fromhex(pieces.put(_spelled(state)))
        self._seen[name] = state
        return bucket


def _bucket(name: str) -> int:
    return zlib.crc32(name.encode()) % BUCKETS


_Node = tuple[str, Reason | None, tuple[tuple[str, str, int], ...], tuple[DeviceState, ...]]


def _spelled(state: NodeState) -> bytes:
    pairs = sorted((a, b, score) for (a, b), score in state.pair_scores.items())
    return msgspec.json.encode((state.name, state.blocked, pairs, state.devices))


def _node(raw: bytes) -> NodeState:
    name, blocked, pairs, devices = msgspec.json.decode(raw, type=_Node)
    scores = {(a, b): score for a, b, score in pairs}
    return NodeState.of(name, devices, blocked=blocked, pair_scores=scores)


def inputs(digest: str, source: Source) -> Inputs:
    """What the hash names. Raises Missing."""
    return msgspec.json.decode(_one(digest, source, "inputs"), type=Inputs)


def nodes(choice: Choice, source: Source) -> dict[str, NodeState]:
    """The nodes of a choice, by name. Raises Missing."""
    lists = _many(_digests(_one(choice.nodes, source, "nodes")), source, "nodes")
    own = [digest for one in lists for digest in _digests(one)]
    found = map(_node, _many(own, source, "nodes"))
    return {state.name: state for state in sorted(found, key=lambda state: state.name)}


def candidates(choice: Choice, known: Mapping[str, NodeState], source: Source) -> list[str]:
    """The names of a choice's candidates. Raises Missing."""
    bits = choice.candidates
    names = [name for place_, name in enumerate(sorted(known)) if bits[place_ >> 3] >> (place_ & 7) & 1]
    if not choice.strangers:
        return names
    return names + _one(choice.strangers, source, "candidates").decode().split("\n")


def config(choice: Choice, source: Source) -> str:
    """The device configuration of a choice, as text. Raises Missing."""
    return _one(choice.config, source, "configuration").decode() if choice.config else ""


def _digests(raw: bytes) -> list[str]:
    return [raw[start : start + _DIGEST_BYTES].hex() for start in range(0, len(raw), _DIGEST_BYTES)]


def _one(digest: str, source: Source, part: str) -> bytes:
    return _many([digest], source, part)[0]


def _many(digests: list[str], source: Source, part: str) -> list[bytes]:
    """In this order, each checked against its digest. Raises Missing."""
    found = source(digests)
    raws = [unpacked(found[digest]) if digest in found else b"" for digest in digests]
    if any(digest_of(raw) != digest for raw, digest in zip(raws, digests, strict=True)):
        raise Missing(part)
    return raws
