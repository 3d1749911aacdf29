"""What the colours of the heat map tell: by the address, by number and words, for cells and for blocks of nodes."""

from __future__ import annotations

import html
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounting import ledger, models
from accounting.pages import overview
from accounting.selectors import cluster, shades
from accounting.services import measurements
from accounting.services.measurements import Condition, Sample
from hami_platform import env
from hami_platform.domain.devices import Device
from hami_platform.domain.nodes import DeviceState
from tests.accounting import rows
from tests.accounting.rows import Given

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(models.User.objects.create_superuser("root"))
    return client


def page(client: Client, colour: str) -> str:
    answer = client.get(reverse("console:cluster"), {"colour": colour} if colour else {})
    assert answer.status_code == 200
    return answer.content.decode()


def labels(shown: str) -> list[str]:
    return [html.unescape(one) for one in re.findall(r'class="cell" id="[^"]*"[^>]*aria-label="([^"]*)"', shown)]


def read(uuid: str, use: int | None = None, age_s: int = 0, **how: object) -> None:
    node = uuid.split("-")[1]
    sample = Sample(uuid, core_used_percent=use, condition=Condition(**how))  # type: ignore[arg-type]
    measurements.measurements_store(node=node, age_s=age_s, samples=[sample])


def filled() -> None:
    """One device of each kind: held and hot, unhealthy, cordoned, not read."""
    rows.node(count=4)
    rows.pod(shares=[Given("GPU-n1-0", 12288, 60)])
    read("GPU-n1-0", 64, temperature_c=71, slowed=("heat_software",))
    read("GPU-n1-1", 0, temperature_c=39, ailment="XID 79")
    with ledger.transaction(cause="test") as entry:
        models.Device.objects.filter(uuid="GPU-n1-2").update(cordoned=True)
        entry.record("device", "n1/NVIDIA/GPU-n1-2")


KINDS = [
    ("cores", ["cores held: 60 %", "cores held: 0 %", "cores held: 0 %, cordoned", "cores held: 0 %"]),
    (
        "use",
        ["measured use: 64 %", "measured use: 0 %", "measured use: not known, cordoned", "measured use: not known"],
    ),
    (
        "temperature",
        ["temperature: 71 °C", "temperature: 39 °C", "temperature: not known, cordoned", "temperature: not known"],
    ),
    ("health", ["slowed down", "unhealthy", "cordoned, cordoned", "well"]),
]


@pytest.mark.parametrize("colour, words", KINDS)
def test_each_device_tells_what_was_chosen(desk: Client, colour: str, words: list[str]) -> None:
    filled()
    assert labels(page(desk, colour)) == [f"n1/{n}: {one}" for n, one in enumerate(words)]


@pytest.mark.parametrize("colour", ["", "memory", "no such"])
def test_amounts_are_drawn_unless_something_else_is_chosen(desk: Client, colour: str) -> None:
    filled()
    shown = page(desk, colour)
    assert labels(shown)[0] == "n1/0: 50 % of memory, 60 % of cores held"
    assert "Fill from below: memory held" in shown


def test_the_choice_is_marked_and_lives_in_the_address(desk: Client) -> None:
    filled()
    shown = page(desk, "temperature")
    assert '<a class="chip" href="/?colour=temperature" aria-current="true">temperature</a>' in shown
    assert 'hx-get="/?colour=temperature&amp;after=' in shown


def test_the_legend_has_numbers_with_their_unit_and_what_is_not_known(desk: Client) -> None:
    filled()
    shown = " ".join(html.unescape(re.sub(r"<[^>]+>", "", page(desk, "temperature"))).split())
    assert "under 40 °C 40–54 °C 55–69 °C 70–79 °C 80–89 °C 90 °C and more – not known" in shown
    shown = " ".join(html.unescape(re.sub(r"<[^>]+>", "", page(desk, "health"))).split())
    assert "✓ well ‖ cordoned ▼ slowed down by heat or hardware ✕ unhealthy" in shown


def test_a_reading_that_is_too_old_is_not_shown_as_if_it_were_of_now(desk: Client) -> None:
    rows.node(count=1)
    read("GPU-n1-0", temperature_c=71, age_s=3600)
    assert labels(page(desk, "temperature")) == ["n1/0: temperature: not known"]


def test_a_card_at_its_power_limit_is_well(desk: Client) -> None:
    rows.node(count=1)
    read("GPU-n1-0", slowed=("power_cap", "sync_boost"))
    assert labels(page(desk, "health")) == ["n1/0: well"]


BLOCKS = [
    ("cores", "cores held: 15 %", "15"),
    ("use", "measured use: 32 %", "32"),
    ("temperature", "temperature: 71 °C", "71"),
    ("health", "1 unhealthy", "1✕"),
]


@pytest.mark.parametrize("colour, words, number", BLOCKS)
def test_a_block_tells_its_hottest_its_mean_or_its_sick(
    desk: Client, monkeypatch: pytest.MonkeyPatch, colour: str, words: str, number: str
) -> None:
    monkeypatch.setattr(overview, "CELLS", 3)
    filled()
    shown = page(desk, colour)
    assert labels(shown) == [f"n1: {words}"]
    assert re.findall(r'class="cell-number"[^>]*>([^<]*)<', shown) == [number]
    assert "One block is one node" in shown


def test_blocks_follow_what_is_read_next(desk: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "CELLS", 1)
    rows.node()
    read("GPU-n1-0", temperature_c=50)
    assert labels(page(desk, "temperature")) == ["n1: temperature: 50 °C"]
    read("GPU-n1-1", temperature_c=80)
    assert labels(page(desk, "temperature")) == ["n1: temperature: 80 °C"]


@pytest.mark.parametrize("colour", shades.CHOICES)
def test_a_choice_takes_few_statements_however_many_nodes(
    desk: Client, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    monkeypatch.setattr(overview, "CELLS", 3)
    for n in range(3):
        rows.node(f"n{n}", count=2)
        read(f"GPU-n{n}-0", temperature_c=50)
    page(desk, colour)
    ledger._clusters[env.current().cluster] = ledger.cluster_id()  # a test's transaction does not keep it
    with CaptureQueriesContext(connection) as caught:
        page(desk, colour)
    assert len(caught.captured_queries) < 20


@pytest.mark.parametrize("value, step", [(0, 0), (39, 0), (40, 1), (69, 2), (89, 4), (90, 5), (130, 5)])
def test_a_step_begins_at_its_lower_end(value: int, step: int) -> None:
    from datetime import UTC, datetime

    from accounting.selectors.readings import Reading

    device = Device("GPU-1", 0, "NVIDIA", "NVIDIA A10", 24576, 100, 10)
    cell = cluster.Cell("n1", DeviceState(device), ())
    shade = shades.of_device(
        shades.CHOICES["temperature"], cell, Reading(datetime(2026, 1, 1, tzinfo=UTC), temperature_c=value)
    )
    assert (shade.css, shade.text) == (f"heat-{step}", str(value))
