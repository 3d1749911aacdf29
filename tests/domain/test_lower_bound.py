"""The charge that admission checks before a card is chosen: H02, H18, H23, H34, and its law: never above what comes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import devices, fit, lifecycle, nodes, quota, reasons, requests
from tests import builders, strategies
from tests.domain import clusters

INIT, SIDECAR, APP = devices.ContainerKind.INIT, devices.ContainerKind.SIDECAR, devices.ContainerKind.APP


def ask(count: int = 1, memory_mib: int = 0, percent: int | None = None, cores: int = 0) -> requests.DeviceRequest:
    return requests.DeviceRequest("NVIDIA", count, memory_mib, percent, cores)


def bound(one: requests.DeviceRequest, *eligible: devices.Device) -> quota.Charge:
    request = requests.PodRequest((requests.ContainerRequest("c0", APP, (one,)),))
    (charge,) = lifecycle.lower_bound(request, {"NVIDIA": eligible})
    return charge


def test_h02_a_bare_count_is_charged_as_the_whole_device() -> None:
    assert bound(ask(percent=100, cores=100), builders.device()) == quota.Charge(
        "NVIDIA", "", quota.Amounts(1, 24576, 100), 24576
    )


def test_h18_the_charge_is_count_times_the_value_per_device() -> None:
    charge = bound(ask(count=2, memory_mib=2048, cores=20), builders.device())
    assert (charge.amounts, charge.largest_share_mib) == (quota.Amounts(2, 4096, 40), 2048)


def test_h23_a_percentage_is_charged_as_of_the_smallest_eligible_device() -> None:
    small, large = builders.device(memory_mib=24576), builders.device("GPU-b", memory_mib=81920)
    assert bound(ask(percent=50), large, small).amounts.memory_mib == 12288


def test_without_devices_a_percentage_is_charged_as_nothing_and_an_amount_in_full() -> None:
    assert bound(ask(percent=50)).amounts == quota.Amounts(1, 0, 0)
    assert bound(ask(memory_mib=3000)).amounts == quota.Amounts(1, 3000, 0)


def test_a_mig_device_is_charged_by_its_smallest_sufficient_profile() -> None:
    profiles = tuple(devices.MigProfile(f"{i}g", 5120 * i, 14 * i, i) for i in (1, 2, 4))
    card = builders.device(memory_mib=40960, mode="mig", mig_profiles=profiles)
    assert bound(ask(memory_mib=5121), card).amounts == quota.Amounts(1, 10240, 28)
    assert bound(ask(percent=100, cores=100), card).amounts == quota.Amounts(1, 20480, 56)


def test_a_device_too_small_for_the_request_does_not_lower_the_bound() -> None:
    small, large = builders.device(memory_mib=8000), builders.device("GPU-b", memory_mib=40000)
    assert bound(ask(memory_mib=9000), small, large).amounts.memory_mib == 9000


def test_each_vendor_has_a_charge_of_its_own() -> None:
    asks = (ask(memory_mib=100), requests.DeviceRequest("MLU", 2, 256))
    request = requests.PodRequest((requests.ContainerRequest("c0", APP, asks),))
    assert lifecycle.lower_bound(request, {}) == (
        quota.Charge("MLU", "", quota.Amounts(2, 512, 0), 256),
        quota.Charge("NVIDIA", "", quota.Amounts(1, 100, 0), 100),
    )


@given(strategies.pod_requests(), st.lists(st.integers(1, 3), min_size=1, max_size=6))
def test_the_bound_never_exceeds_what_a_placement_is_charged(request: requests.PodRequest, picks: list[int]) -> None:
    cards = [builders.device(f"GPU-{i}", memory_mib=10000 * i) for i in (1, 2, 3)]
    placed: list[devices.Share] = []
    for index, container in enumerate(request.containers):
        for one in container.devices:
            for nth in range(one.count):
                card = cards[(picks[index % len(picks)] + nth) % len(cards)]
                size = one.memory_on(card.memory_mib)
                placed.append(devices.Share(index, "", container.kind, "NVIDIA", card.uuid, size, one.core_percent))
    charged = sum(
        (quota.Amounts(h.slots, h.memory_mib, h.core_percent) for h in lifecycle.peak(placed).values()), quota.Amounts()
    )
    for charge in lifecycle.lower_bound(request, {"NVIDIA": cards}):
        rest = charged - charge.amounts
        assert min(rest.devices, rest.memory_mib, rest.core_percent) >= 0


def test_more_cores_than_a_device_has_are_charged_as_all_of_it() -> None:
    """Placement reads them so, too."""
    assert bound(ask(memory_mib=100, cores=150), builders.device()).amounts.core_percent == 100
    assert bound(ask(memory_mib=100, cores=150)).amounts.core_percent == 100


@given(clusters.node_states(), clusters.pods())
def test_the_bound_never_exceeds_what_fit_takes(node: nodes.NodeState, request: requests.PodRequest) -> None:
    fitted = fit.fit_pod(node, request)
    if isinstance(fitted, reasons.Rejection):
        return
    charged: dict[str, quota.Amounts] = {}
    for charge in fit.charges(fitted.shares):
        charged[charge.vendor] = charged.get(charge.vendor, quota.Amounts()) + charge.amounts
    for least in lifecycle.lower_bound(request, lifecycle.representatives(state.device for state in node.devices)):
        rest = charged[least.vendor] - least.amounts
        assert min(rest.devices, rest.memory_mib, rest.core_percent) >= 0


def test_h34_the_quota_bound_follows_the_same_order() -> None:
    def bound(*kinds_mib: tuple[devices.ContainerKind, int]) -> int:
        asks = [requests.ContainerRequest(f"c{i}", k, (ask(memory_mib=m),)) for i, (k, m) in enumerate(kinds_mib)]
        (charge,) = lifecycle.lower_bound(requests.PodRequest(tuple(asks)), {"NVIDIA": [builders.device()]})
        return charge.amounts.memory_mib

    assert bound((INIT, 20480), (SIDECAR, 2048), (APP, 10240)) == 20480 <= 22000
    assert bound((SIDECAR, 2048), (INIT, 20480), (APP, 10240)) == 22528 > 22000


@st.composite
def mixed_cards(draw: st.DrawFn) -> list[devices.Device]:
    profiles = tuple(devices.MigProfile(f"{i}g", 3000 * i, 14 * i, i) for i in (1, 2))
    kinds = [(memory_mib, mig) for memory_mib in (4000, 8000, 9000) for mig in (False, True)]
    picked = draw(st.lists(st.sampled_from(kinds), max_size=8))
    return [
        builders.device(
            f"GPU-{i}", memory_mib=size, mode="mig" if mig else "hami-core", mig_profiles=profiles if mig else ()
        )
        for i, (size, mig) in enumerate(picked)
    ]


@given(strategies.pod_requests(), mixed_cards())
def test_the_bound_over_representatives_is_the_bound_over_all(
    request: requests.PodRequest, cards: list[devices.Device]
) -> None:
    few = lifecycle.representatives(cards)
    assert lifecycle.lower_bound(request, few) == lifecycle.lower_bound(request, {"NVIDIA": cards})
    assert sum(map(len, few.values())) <= 6


few = st.lists(st.builds(builders.device, st.sampled_from("ab"), memory_mib=st.integers(1, 3)), max_size=4)


@given(st.lists(few, max_size=4))
def test_kinds_of_parts_are_the_kinds_of_the_whole(parts: list[list[devices.Device]]) -> None:
    whole = lifecycle.one_of_each_kind(one for part in parts for one in part)
    assert lifecycle.one_of_each_kind(one for part in parts for one in lifecycle.one_of_each_kind(part)) == whole
