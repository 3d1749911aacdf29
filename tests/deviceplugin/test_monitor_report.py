"""Measurements reach the platform in batches, in order, and the newest outlast its absence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deviceplugin import completion, monitor_report, monitor_samples
from deviceplugin.monitor_use import CardUse, Condition, Picture
from tests.deviceplugin.builders import GPU_A, NODE
from tests.deviceplugin.web import Web

PERIOD_S = 60.0


class Bench:
    def __init__(self, web: Web) -> None:
        self.web = web
        self.now_s = 1000.0
        self.samples = monitor_samples.Samples()
        platform = completion.Platform(web.url, "t0k3n")
        self.reporter = monitor_report.Reporter(NODE, platform, self.samples, PERIOD_S, lambda: self.now_s)

    def minute(self, cores: int) -> float:
        """A measurement, and the report that is due after it; the wait for the next."""
        self.now_s += PERIOD_S
        self.samples.add(Picture(cards=(CardUse(GPU_A, 0, "NVIDIA A10", 3 << 20, cores),)))
        return self.reporter.step()

    def heard(self) -> list[int]:
        """The cores of each batch that arrived."""
        return [report["samples"][0]["core_used_percent"] for report in self.web.reports]


@pytest.fixture
def bench() -> Iterator[Bench]:
    web = Web()
    yield Bench(web)
    web.close()


def test_a_batch_carries_node_age_and_figures(bench: Bench) -> None:
    assert bench.minute(7) == PERIOD_S
    assert bench.web.paths == ["/api/v1/measurements"]
    assert bench.web.headers[0]["Authorization"] == "Bearer t0k3n"
    sample = {"uuid": GPU_A, "pod_uid": "", "container": "", "memory_used_mib": 3, "core_used_percent": 7}
    assert bench.web.reports == [{"node": NODE, "age_s": 0, "samples": [sample]}]


def test_a_batch_carries_the_condition_of_the_last_round_as_far_as_it_is_known(bench: Bench) -> None:
    for celsius in (50, 71):
        how = Condition(celsius, power_w=300, slowed=(), xid=31, xid_age_s=5)
        bench.samples.add(Picture(cards=(CardUse(GPU_A, 0, "NVIDIA A10", condition=how),)))
    bench.now_s += PERIOD_S
    bench.reporter.step()
    (sample,) = bench.web.reports[0]["samples"]
    told = {"temperature_c": 71, "power_w": 300, "slowed": [], "xid": 31, "xid_age_s": 5}
    nothing = {"pod_uid": "", "container": "", "memory_used_mib": None, "core_used_percent": None}
    assert sample == {"uuid": GPU_A} | nothing | told


def test_nothing_is_sent_before_it_is_due_and_nothing_empty(bench: Bench) -> None:
    bench.samples.add(Picture(cards=(CardUse(GPU_A, 0, "NVIDIA A10", 1, 1),)))
    assert bench.reporter.step() == PERIOD_S
    assert bench.web.reports == []
    bench.minute(7)
    bench.now_s += PERIOD_S
    bench.reporter.step()
    assert len(bench.web.reports) == 1


def test_while_the_platform_is_away_batches_wait_with_their_age(bench: Bench) -> None:
    bench.web.codes = [503, 503]
    assert bench.minute(1) == PERIOD_S
    bench.minute(2)
    bench.web.reports.clear()
    bench.minute(3)
    assert bench.heard() == [1, 2, 3]
    assert [report["age_s"] for report in bench.web.reports] == [120, 60, 0]


def test_a_long_absence_keeps_the_newest(bench: Bench) -> None:
    most = monitor_report.QUEUE_MOST
    bench.web.codes = [503] * (most + 3)
    for cores in range(most + 3):
        bench.minute(cores)
    bench.web.reports.clear()
    bench.now_s += PERIOD_S
    waits = [bench.reporter.step() for _ in range(most // monitor_report.TURN_MOST)]
    assert bench.heard() == list(range(3, most + 3))
    assert waits[:-1] == [monitor_report.AGAIN_S] * (len(waits) - 1)


def test_what_the_platform_refuses_for_good_is_given_up(bench: Bench) -> None:
    bench.web.codes = [404]
    bench.minute(1)
    bench.minute(2)
    assert bench.heard() == [1, 2]
