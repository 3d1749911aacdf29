"""What is counted under the names of HAMi's newer releases."""

from __future__ import annotations

from prometheus_client import parser

from hami_platform import metrics
from tests.scheduler_ext.world import World, container, pod

BINDING = r"/binding$"


def counted() -> dict[tuple[str, str, str, str], float]:
    """(metric, phase, vendor, reason) → count."""
    families = parser.text_string_to_metric_families(metrics.render().decode())
    samples = (one for family in families for one in family.samples if one.name.startswith("hami_scheduler_"))
    found: dict[tuple[str, str, str, str], float] = {}
    for one in samples:
        if one.name.endswith("_total"):
            assert one.labels["zone"] == "vGPU"
            of = one.labels
            found[one.name, of["phase"], of["device_type"], of["failure_reason"]] = one.value
    return found


def grown(before: dict[tuple[str, str, str, str], float]) -> dict[tuple[str, str, str, str], float]:
    return {key: value - before.get(key, 0) for key, value in counted().items() if value != before.get(key, 0)}


def test_placements_and_refusals_are_counted_by_vendor(world: World) -> None:
    before = counted()
    world.filter(world.create(pod("p")))
    world.filter(world.create(pod("big", container(gpu=1, gpumem=9_000_000))))
    assert grown(before) == {
        ("hami_scheduler_allocations_total", "filter", "NVIDIA", "none"): 1,
        ("hami_scheduler_allocation_failures_total", "filter", "NVIDIA", "no_fit"): 1,
    }


def test_a_bind_that_is_taken_back_is_counted_as_failed_and_as_rolled_back(world: World) -> None:
    made, before = world.placed("p"), counted()
    world.api.fault.fail(BINDING, status=409, times=3)
    assert world.bind(made)
    assert grown(before) == {
        ("hami_scheduler_allocation_failures_total", "bind", "NVIDIA", "bind"): 1,
        ("hami_scheduler_bind_rollbacks_total", "bind", "NVIDIA", "bind"): 1,
    }


def test_a_bind_of_a_pod_that_nobody_knows_has_no_vendor(world: World) -> None:
    before = counted()
    assert world.bind(pod("never", uid="never"))
    assert list(grown(before)) == [("hami_scheduler_allocation_failures_total", "bind", "", "bind")]
