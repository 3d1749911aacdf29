"""In which order devices are tried and nodes are preferred: the policies and the device score.

Knows nothing of whether anything fits. Policy words and their orders are HAMi's (v2.10.0). Two things differ on
purpose: the request's part of the device score is added by vendor word (HAMi compares it with the model, so on real
devices it never is), and a policy without a known word is ignored in favour of the cluster's default.
"""

from __future__ import annotations

from dataclasses import dataclass

from hami_platform.domain.devices import Device
from hami_platform.domain.requests import Constraints, DeviceRequest, Weights

BINPACK = "binpack"
SPREAD = "spread"
NUMA = "numa"
MUTEX = "mutex"
TOPOLOGY = "topology-aware"
_DEVICE_WORDS = frozenset({BINPACK, SPREAD, NUMA, MUTEX, TOPOLOGY})
Key = tuple[float | int | str, ...]
_CHAIN_WORDS = frozenset({BINPACK, SPREAD, NUMA})


@dataclass(frozen=True, slots=True)
class Defaults:
    """The cluster's policies for pods that name none (HAMi flags --node-scheduler-policy and --gpu-scheduler-policy).

    whole_card_as_largest_profile: 100 % of a MIG card means its largest profile. Off, as in HAMi: no instance has all
    of the card's memory, so such a request goes to whole cards only.
    """

    node_policy: str = BINPACK
    device_policy: str = SPREAD
    whole_card_as_largest_profile: bool = False


DEFAULTS = Defaults()
_EQUAL_WEIGHTS = Weights()


@dataclass(frozen=True, slots=True)
class DevicePolicy:
    """A device policy, read once. keys: the sort keys in the order they apply; mutex and topology filter too."""

    keys: tuple[str, ...]
    mutex: bool = False
    topology: bool = False
    numa_bind: bool = False
    chain: bool = False


def device_policy(constraints: Constraints, defaults: Defaults) -> DevicePolicy:
    """The policy in force for a pod: its own when at least one word of it is known, else the cluster's."""
    text = constraints.device_policy
    if text is None or not _words(text):
        text = defaults.device_policy
    words = _words(text)
    chain = "," in text or words == (NUMA,)
    sort_words = tuple(dict.fromkeys(word for word in words if word in _CHAIN_WORDS)) if chain else words
    if chain and constraints.numa_bind:
        sort_words = (NUMA, *(word for word in sort_words if word != NUMA))
    return DevicePolicy(sort_words or (SPREAD,), MUTEX in words, TOPOLOGY in words, constraints.numa_bind, chain)


def spreads_nodes(constraints: Constraints, defaults: Defaults) -> bool:
    """Whether the emptiest node is wanted; everything but `spread` packs."""
    word = (constraints.node_policy or "").strip()
    return (word if word in (BINPACK, SPREAD) else defaults.node_policy.strip()) == SPREAD


def device_score(
    device: Device, used: tuple[int, int, int], request: DeviceRequest | None, weights: Weights = _EQUAL_WEIGHTS
) -> float:
    """10 × weighted sum of the used fractions with the request added; 0 when a total of the device is 0.

    used: (slots, core percent, memory MiB). request: the request for this device's vendor; it adds one slot, whatever
    its count.
    """
    if not (device.slots and device.core_percent and device.memory_mib):
        return 0.0
    slots, cores, memory = used
    if request is not None:
        slots += 1
        cores += request.core_percent
        memory += request.memory_on(device.memory_mib)
    return 10 * (
        weights.slot * slots / device.slots
        + weights.core * cores / device.core_percent
        + weights.memory * memory / device.memory_mib
    )


def try_key(policy: DevicePolicy, device: Device, *, score: float, used_slots: int, preferred: bool = False) -> Key:
    """Sort key of a device: the greatest is tried first; a full tie goes to the highest index, as in HAMi's chains.

    preferred (the pod already holds the device in another phase) outranks the policy, but not the NUMA node of
    numa-bind, since groups must stay together.
    """
    tail = (device.index, device.uuid)
    keys = policy.keys
    if policy.chain:
        values = {BINPACK: score, SPREAD: -score, NUMA: device.numa}
        if policy.numa_bind:
            return (device.numa, preferred, *(values[word] for word in keys[1:]), *tail)
        return (preferred, *(values[word] for word in keys), *tail)
    if keys[0] == MUTEX:
        # Only unused devices pass the mutex filter, and among those NUMA nodes stay together: good for numa-bind too.
        return (-used_slots, device.numa, preferred, *tail)
    if policy.numa_bind:
        return (
            (-device.numa, preferred, score, *tail) if keys[0] == BINPACK else (device.numa, preferred, -score, *tail)
        )
    return (preferred, score if keys[0] == BINPACK else -score, device.numa, *tail)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for part in text.split(",") if (word := part.strip()) in _DEVICE_WORDS)
