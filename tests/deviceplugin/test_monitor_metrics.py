"""What a monitor shows of its cards and of itself, without a container."""

from __future__ import annotations

from deviceplugin import VERSION, monitor_metrics
from deviceplugin.monitor_use import CardUse, Condition, Picture
from tests.deviceplugin.builders import GPU_A, GPU_B, NODE


def test_how_a_card_is_stands_beside_them_as_far_as_its_driver_tells() -> None:
    how = Condition(71, 90, 301, 400, ("power_cap",))
    picture = Picture(cards=(CardUse(GPU_A, 0, "NVIDIA A10", condition=how), CardUse(GPU_B, 1, "NVIDIA A10")))
    shown = monitor_metrics.MonitorCollector(NODE, lambda: picture, legacy=False)
    ours = [one for one in shown.collect() if one.name.startswith("hami_platform_card_")]
    found = {family.name: [(one.labels["device_uuid"], one.value) for one in family.samples] for family in ours}
    assert found == {
        "hami_platform_card_temperature_celsius": [(GPU_A, 71)],
        "hami_platform_card_power_watts": [(GPU_A, 301)],
        "hami_platform_card_power_limit_watts": [(GPU_A, 400)],
        "hami_platform_card_slowed": [(GPU_A, 1)],
    }


def test_what_runs_here_is_told_without_a_zone() -> None:
    shown = monitor_metrics.MonitorCollector(NODE, Picture, legacy=False)
    (build,) = [family.samples[0] for family in shown.collect() if family.name == "hami_build_info"]
    assert (build.labels["version"], build.value) == (VERSION, 1)
    assert set(build.labels) == {"version", "revision", "build_date", "go_version", "compiler", "platform"}
