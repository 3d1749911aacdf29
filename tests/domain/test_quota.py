"""Quota arithmetic: law 6, what a rule counts, native limits, charges of what is held, and headroom for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import fit, quota
from hami_platform.domain.devices import Held
from hami_platform.domain.quota import Amounts, Charge, Excess, Headroom, Limits, Selector
from hami_platform.domain.reasons import Reason, Rejection
from hami_platform.domain.requests import ContainerRequest
from tests import builders
from tests.domain import clusters


def charge(devices: int = 0, memory_mib: int = 0, core_percent: int = 0, *, model: str = "", share: int = 0) -> Charge:
    return Charge("NVIDIA", model, Amounts(devices, memory_mib, core_percent), share)


VENDORS = st.sampled_from(("NVIDIA", "MLU"))
MODELS = st.sampled_from(("", "NVIDIA A100"))
charges = st.lists(st.builds(Charge, VENDORS, MODELS, clusters.amounts(), st.integers(0, 8)), max_size=3)


@given(clusters.limits(), clusters.amounts(), clusters.amounts(), charges)
def test_law_6_more_use_never_turns_a_refusal_into_a_grant(
    limits: Limits, used: Amounts, more: Amounts, asked: list[Charge]
) -> None:
    if quota.excess(builders.headroom(limits, used), asked) is not None:
        assert quota.excess(builders.headroom(limits, used + more), asked) is not None


@given(clusters.amounts(), charges)
def test_law_6_no_limit_never_refuses(used: Amounts, asked: list[Charge]) -> None:
    assert quota.excess(builders.headroom(Limits(), used), asked) is None


@given(st.sampled_from(("devices", "memory_mib", "core_percent")), clusters.amounts(), charges)
def test_law_6_zero_refuses_any_positive_ask(resource: str, used: Amounts, asked: list[Charge]) -> None:
    positive = sum(getattr(c.amounts, resource) for c in asked) > 0

    refused = quota.excess(builders.headroom(Limits(**{resource: 0}), used), asked) is not None

    assert refused == positive


@given(clusters.limits(), clusters.amounts(), charges)
def test_an_excess_names_numbers_that_explain_it(limits: Limits, used: Amounts, asked: list[Charge]) -> None:
    found = quota.excess(builders.headroom(limits, used), asked)

    if found is not None:
        assert found.used + found.asked > found.limit
        assert getattr(limits, found.resource) == found.limit


def test_equality_fits() -> None:
    room = builders.headroom(Limits(memory_mib=10000), Amounts(memory_mib=6000))

    assert quota.excess(room, [charge(memory_mib=4000)]) is None
    assert quota.excess(room, [charge(memory_mib=4001)]) == Excess("nlp/default", "memory_mib", 10000, 6000, 4001)


def test_an_excess_reads_as_a_sentence() -> None:
    room = builders.headroom(Limits(memory_mib=10000), Amounts(memory_mib=8000))

    found = quota.excess(room, [charge(memory_mib=4000)])

    assert found is not None
    assert found.text() == "needs 4000, free 2000 of 10000 memory MiB, used 8000, quota nlp/default"


@pytest.mark.parametrize(
    "selector, counted",
    [
        (Selector(), True),
        (Selector("NVIDIA"), True),
        (Selector("MLU"), False),
        (Selector("", "*a100*"), True),
        (Selector("NVIDIA", "nvidia a100*"), True),
        (Selector("NVIDIA", "*H100*"), False),
        (Selector("MLU", "*a100*"), False),
    ],
)  # fmt: skip
def test_a_selector_counts_its_vendor_and_models(selector: Selector, counted: bool) -> None:
    assert quota.covers(selector, "NVIDIA", "NVIDIA A100-SXM4-40GB") is counted


def test_a_charge_without_a_model_is_not_counted_by_a_model_pattern() -> None:
    assert not quota.covers(Selector("NVIDIA", "*"), "NVIDIA", "")
    assert quota.covers(Selector("NVIDIA"), "NVIDIA", "")


def test_pod_maxima_do_not_depend_on_use() -> None:
    room = builders.headroom(Limits(pod_devices=2), Amounts(devices=50))

    assert quota.excess(room, [charge(devices=2)]) is None
    assert quota.excess(room, [charge(devices=3)]) == Excess("nlp/default", "pod_devices", 2, 0, 3)


def test_a_share_on_one_device_has_a_maximum() -> None:
    room = builders.headroom(Limits(device_memory_mib=4000))

    assert quota.excess(room, [charge(memory_mib=8000, share=4000)]) is None
    found = quota.excess(room, [charge(memory_mib=8000, share=5000)])
    assert found is not None
    assert (found.resource, found.limit, found.asked) == ("device_memory_mib", 4000, 5000)


def test_h18_exact_fit_is_admitted_and_one_more_is_not() -> None:
    asked = charge(devices=2, memory_mib=4096, core_percent=40)
    limits = Limits(memory_mib=4096, core_percent=50)

    assert quota.excess(builders.headroom(limits), [asked]) is None
    found = quota.excess(builders.headroom(limits, asked.amounts), [charge(memory_mib=1)])
    assert found is not None
    assert "free 0 of 4096 memory MiB, used 4096" in found.text()


def test_h18_two_devices_are_charged_twice() -> None:
    node = builders.node("n1", builders.state("GPU-a"), builders.state("GPU-b", index=1))
    fitted = fit.fit_pod(node, builders.pod(builders.ask(2, memory_mib=2048, core_percent=20)))

    assert isinstance(fitted, fit.Fitted)
    assert fit.charges(fitted.shares) == (Charge("NVIDIA", builders.MODEL, Amounts(2, 4096, 40), 2048),)


def test_h19_zero_denies_and_no_row_allows() -> None:
    assert quota.excess(builders.headroom(Limits(memory_mib=0)), [charge(memory_mib=1)]) is not None
    assert quota.excess(Headroom(), [charge(memory_mib=1)]) is None


def test_h20_the_effective_limit_is_the_minimum_of_all_rows() -> None:
    small, large = Limits(memory_mib=1000), Limits(memory_mib=5000)

    assert quota.effective([small, large]) == small
    assert quota.effective([large]) == large
    assert quota.effective([small]) == small
    assert quota.effective([]) == Limits()
    assert quota.effective([small, Limits(devices=0)]) == Limits(memory_mib=1000, devices=0)


def test_h22_a_lowered_limit_shows_no_headroom_and_how_much_it_is_over() -> None:
    left = quota.Remaining(limit=6000, used=8000)

    assert (left.free, left.over) == (0, 2000)


@pytest.mark.parametrize("used, admitted", [(8000, False), (6000, False), (5999, True)])
def test_h22_the_next_ask_waits_until_use_falls(used: int, admitted: bool) -> None:
    room = builders.headroom(Limits(memory_mib=6000), Amounts(memory_mib=used))

    assert (quota.excess(room, [charge(memory_mib=1)]) is None) is admitted


def test_nothing_asked_is_not_refused_in_a_scope_over_its_limit() -> None:
    room = builders.headroom(Limits(memory_mib=6000), Amounts(memory_mib=8000))

    assert quota.excess(room, [charge(devices=1, core_percent=10)]) is None


def test_charges_are_summed_per_vendor_and_model() -> None:
    held = {("NVIDIA", "a"): Held(1, 100, 10), ("NVIDIA", "b"): Held(2, 200, 20), ("MLU", "x"): Held(1, 5, 0)}
    models = {("NVIDIA", "a"): "A10", ("NVIDIA", "b"): "A10", ("MLU", "x"): "370"}

    assert quota.charges_of(held, models) == (
        Charge("MLU", "370", Amounts(1, 5, 0), 5),
        Charge("NVIDIA", "A10", Amounts(3, 300, 30), 200),
    )


def test_h38_a_namespace_is_charged_the_sum_over_devices_of_what_is_held() -> None:
    held = {("NVIDIA", "a"): Held(1, 8000, 0), ("NVIDIA", "b"): Held(1, 5000, 0)}

    assert quota.charges_of(held, {})[0].amounts == Amounts(2, 13000, 0)


# The namespace's limit at work in a placement ------------------------------------------------------------------------


def fits(room: Headroom, *containers: ContainerRequest, count: int = 1) -> bool:
    node = builders.uniform_node(count=count)
    return isinstance(fit.fit_pod(node, builders.pod(*containers), headroom=room), fit.Fitted)


def app(memory_mib: int, count: int = 1) -> ContainerRequest:
    return builders.container(builders.ask(count, memory_mib=memory_mib))


def test_k4_apps_add_up_whatever_init_containers_there_are() -> None:
    room = builders.headroom(Limits(memory_mib=20000))

    assert not fits(room, builders.init(), app(12000), app(12000))
    assert fits(room, builders.init(), app(12000), app(8000))


def test_ordinary_init_containers_are_charged_at_their_peak() -> None:
    room = builders.headroom(Limits(memory_mib=2048))
    first = builders.init(builders.ask(memory_mib=1500))

    assert fits(room, first, first, app(1500))
    assert not fits(room, first, first, app(2049))


def test_a_sidecar_and_an_app_add_up() -> None:
    room = builders.headroom(Limits(memory_mib=7500))

    assert not fits(room, builders.sidecar(builders.ask(memory_mib=4000)), app(4000))
    assert fits(room, builders.sidecar(builders.ask(memory_mib=4000)), app(3500))


def test_h34_an_init_container_counts_beside_the_sidecars_before_it() -> None:
    room = builders.headroom(Limits(memory_mib=22000))
    init, sidecar = builders.init(builders.ask(memory_mib=20480)), builders.sidecar(builders.ask(memory_mib=2048))

    assert fits(room, init, sidecar, app(10240))
    assert not fits(room, sidecar, init, app(10240))
    assert fits(Headroom(), sidecar, init, app(10240))


def test_a_scope_that_is_not_enforced_never_refuses() -> None:
    assert not fits(builders.headroom(Limits(devices=0)), app(1))
    assert fits(builders.headroom(Limits(devices=0), enforced=False), app(1))


def test_a_percentage_is_charged_by_the_device_it_meets() -> None:
    small, large = builders.state("GPU-a", memory_mib=2000), builders.state("GPU-b", index=1, memory_mib=8000)
    node = builders.node("n1", small, large)
    pod = builders.pod(builders.ask(memory_percent=100))

    fitted = fit.fit_pod(node, pod, headroom=builders.headroom(Limits(memory_mib=2000)))
    refused = fit.fit_pod(node, pod, headroom=builders.headroom(Limits(memory_mib=1500)))

    assert isinstance(fitted, fit.Fitted)
    assert [share.uuid for share in fitted.shares] == ["GPU-a"]
    assert refused == Rejection({Reason.RESOURCE_QUOTA_NOT_FIT: 2}, 2)


def test_a_model_quota_steers_to_devices_that_it_does_not_count() -> None:
    node = builders.node(
        "n1", builders.state("GPU-a", model="NVIDIA A100"), builders.state("GPU-b", index=1, model="NVIDIA T4")
    )
    room = builders.headroom(Limits(devices=0), model_pattern="*A100*")

    fitted = fit.fit_pod(node, builders.pod(builders.ask(memory_mib=10)), headroom=room)

    assert isinstance(fitted, fit.Fitted)
    assert [share.uuid for share in fitted.shares] == ["GPU-b"]


def test_k22_a_mig_instance_is_charged_its_profile() -> None:
    node = builders.node("n1", builders.mig_state())
    pod = builders.pod(builders.ask(memory_mib=4000))

    assert isinstance(fit.fit_pod(node, pod, headroom=builders.headroom(Limits(memory_mib=4864))), fit.Fitted)
    assert fit.fit_pod(node, pod, headroom=builders.headroom(Limits(memory_mib=4863))) == Rejection(
        {Reason.RESOURCE_QUOTA_NOT_FIT: 1}, 1
    )


def test_k23_two_instances_of_one_init_container_add_up() -> None:
    node = builders.node("n1", builders.mig_state())
    fitted = fit.fit_pod(node, builders.pod(builders.init(builders.ask(2, memory_mib=4000)), app(4000)))

    assert isinstance(fitted, fit.Fitted)
    assert fit.charges(fitted.shares)[0].amounts == Amounts(2, 9728, 28)
