"""Device score, the order in which devices are tried under every policy, and the node policy.

Devices of the order tests: index 0…3, NUMA 0 0 1 1, memory used 30 10 20 0 %.
"""

from __future__ import annotations

import pytest

from hami_platform.domain import score
from hami_platform.domain.devices import Device
from hami_platform.domain.requests import Constraints, DeviceRequest, Weights
from hami_platform.domain.score import Defaults
from tests import builders

SMALL = builders.device(slots=10, core_percent=10, memory_mib=10000)
MIXED = builders.device(slots=10, core_percent=4, memory_mib=8192)


@pytest.mark.parametrize(
    "device, used, ask, expected",
    [
        (MIXED, (2, 1, 2048), None, 7.0),
        (MIXED, (2, 1, 2048), builders.ask(4, memory_mib=1024, core_percent=1), 11.75),
        (SMALL, (0, 0, 0), builders.ask(memory_percent=50, core_percent=2), 8.0),
        (builders.device(slots=0), (0, 0, 0), None, 0.0),
        (builders.device(core_percent=0), (1, 0, 5), None, 0.0),
        (builders.device(memory_mib=0), (1, 5, 0), None, 0.0),
    ],
)
def test_device_score_adds_the_request_of_its_vendor(
    device: Device, used: tuple[int, int, int], ask: DeviceRequest | None, expected: float
) -> None:
    assert score.device_score(device, used, ask) == pytest.approx(expected)


@pytest.mark.parametrize(
    "weights, a, b", [(Weights(1, 1, 1), 16, 15), (Weights(1, 1, 3), 26, 27), (Weights(1, 3, 1), 34, 17)]
)
def test_weights_decide_between_devices(weights: Weights, a: float, b: float) -> None:
    device, ask = builders.device(memory_mib=1000), builders.ask(memory_percent=40)

    assert score.device_score(device, (1, 90, 100), ask, weights) == pytest.approx(a)
    assert score.device_score(device, (7, 10, 200), ask, weights) == pytest.approx(b)


def tried(
    policy: str | None, *, numa_bind: bool = False, default: str = "spread", slots: tuple[int, ...] = (3, 1, 2, 0)
) -> str:
    """Indices in the order in which they are tried."""
    read = score.device_policy(Constraints(device_policy=policy, numa_bind=numa_bind), Defaults(device_policy=default))
    devices = [(builders.device(f"GPU-{i}", index=i, numa=i // 2), used) for i, used in enumerate(slots)]
    order = sorted(devices, key=lambda d: score.try_key(read, d[0], score=float(d[1]), used_slots=d[1]), reverse=True)
    return "".join(str(device.index) for device, _ in order)


@pytest.mark.parametrize(
    "policy, numa_bind, order",
    [
        ("binpack", False, "0213"),
        ("spread", False, "3120"),
        ("topology-aware", False, "3120"),
        ("mutex", False, "3120"),
        ("numa", False, "3210"),
        ("binpack", True, "0123"),
        ("spread", True, "3210"),
        ("mutex", True, "3120"),
        ("numa,binpack", False, "2301"),
        ("numa,spread", False, "3210"),
        ("binpack,numa", False, "0213"),
        ("binpack , numa", True, "2301"),
        ("mutex,binpack", False, "0213"),
        ("mutex,topology-aware", False, "3120"),
        ("binpack,binpack,spread", False, "0213"),
    ],
)
def test_devices_are_tried_in_the_policy_s_order(policy: str, numa_bind: bool, order: str) -> None:
    assert tried(policy, numa_bind=numa_bind) == order


@pytest.mark.parametrize("policy", ["binpack", "spread", "mutex", "numa,binpack", "spread,numa", "topology-aware"])
def test_a_full_tie_tries_the_highest_numa_node_and_index_first(policy: str) -> None:
    assert tried(policy, slots=(1, 1, 1, 1)) == "3210"


@pytest.mark.parametrize("policy", [None, "", ",", "bogus", "bogus,other"])
def test_k27_a_policy_without_a_known_word_leaves_the_cluster_s_default(policy: str | None) -> None:
    assert tried(policy, default="binpack") == tried("binpack")
    assert tried(policy, default="spread") == tried("spread")


def test_blanks_around_a_word_do_not_matter() -> None:
    assert tried(" binpack ") == tried("binpack")


@pytest.mark.parametrize(
    "own, default, spreads",
    [
        (None, "binpack", False),
        (None, "spread", True),
        ("spread", "binpack", True),
        ("binpack", "spread", False),
        ("bogus", "spread", True),
        ("", "spread", True),
    ],
)
def test_node_policy_is_the_pod_s_if_known_else_the_cluster_s(own: str | None, default: str, spreads: bool) -> None:
    assert score.spreads_nodes(Constraints(node_policy=own), Defaults(node_policy=default)) is spreads
