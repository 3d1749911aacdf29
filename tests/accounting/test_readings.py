"""How devices are: the latest that their agents read, never older than what is known, shown with its age."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounting import ledger, models
from accounting.services import measurements
from accounting.services.measurements import Condition, Sample
from deviceplugin import monitor_report, monitor_samples, monitor_use
from tests.accounting import rows
from tests.accounting.test_api_rest import person, problem_of, url
from tests.accounting.test_measurements import agent

pytestmark = pytest.mark.django_db

HOW = Condition(71, 90, 301, 400, ("power_cap", "heat_software"), 31, 60)


def store(*samples: Sample, age_s: int = 0) -> None:
    measurements.measurements_store(node="n1", age_s=age_s, samples=samples)


def reading() -> models.DeviceReading:
    return models.DeviceReading.objects.get(device__uuid="GPU-n1-0")


def test_the_latest_reading_of_a_device_is_kept_and_no_other() -> None:
    rows.node()
    store(Sample("GPU-n1-0", condition=Condition(50)))
    store(Sample("GPU-n1-0", "", "", 900, 12, HOW))
    found = reading()
    assert (found.temperature_c, found.temperature_limit_c, found.power_w, found.power_limit_w) == (71, 90, 301, 400)
    assert (found.slowed, found.xid, found.ailment) == ("power_cap,heat_software", 31, "")
    assert (found.memory_used_mib, found.core_used_percent) == (900, 12)
    assert found.xid_at == found.at - timedelta(seconds=60)


def test_a_report_that_comes_late_does_not_replace_a_later_reading() -> None:
    rows.node()
    store(Sample("GPU-n1-0", condition=Condition(71)))
    store(Sample("GPU-n1-0", condition=Condition(50)), age_s=300)
    assert reading().temperature_c == 71


def test_what_a_driver_no_longer_tells_is_not_remembered() -> None:
    rows.node()
    store(Sample("GPU-n1-0", condition=HOW))
    store(Sample("GPU-n1-0", condition=Condition(ailment="it does not answer")))
    found = reading()
    assert (found.temperature_c, found.slowed, found.xid, found.xid_at) == (None, None, None, None)
    assert found.ailment == "it does not answer"


def test_not_slowed_is_not_the_same_as_not_told() -> None:
    rows.node()
    store(Sample("GPU-n1-0", condition=Condition(slowed=())))
    assert reading().slowed == ""


def test_a_share_has_no_reading_nor_has_a_device_of_another_node() -> None:
    rows.node()
    rows.pod()
    store(Sample("GPU-n1-0", "uid-p1", "main", 300, 20, HOW), Sample("GPU-n9-0", condition=HOW))
    assert not models.DeviceReading.objects.exists()


def test_readings_of_many_devices_take_as_many_statements_as_of_one() -> None:
    """Statements are what reports of thousands of nodes cost."""
    rows.node(count=8)
    store(Sample("GPU-n1-0", condition=HOW))
    counts = []
    for n in (1, 8):
        with CaptureQueriesContext(connection) as caught:
            store(*(Sample(f"GPU-n1-{one}", condition=HOW) for one in range(n)))
        counts.append(len(caught.captured_queries))
    assert counts[0] == counts[1]


def test_what_the_agent_sends_of_a_card_is_what_is_understood() -> None:
    rows.node()
    told = monitor_use.Condition(71, 90, 301, 400, ("power_cap",), 79, 5, "XID 79")
    sent = monitor_samples.Sample("GPU-n1-0", "", "", 31200, 64, told)
    body = monitor_report.Batch(0.0, (sent,)).body("n1", 0.0)
    answer = agent().post(url("measurements"), body, format="json")
    assert answer.json() == {"stored": 1, "ignored": 0}
    found = reading()
    assert (found.temperature_c, found.power_limit_w, found.slowed, found.xid) == (71, 400, "power_cap", 79)
    assert found.ailment == "XID 79"


@pytest.mark.parametrize(
    "field, value", [("temperature_c", -1), ("power_w", "hot"), ("slowed", ["No"]), ("ailment", "x" * 201)]
)
def test_a_bad_reading_is_refused_at_its_field(field: str, value: object) -> None:
    rows.node()
    body = {"node": "n1", "samples": [{"uuid": "GPU-n1-0", field: value}]}
    answer = agent().post(url("measurements"), body, format="json")
    assert field in str(problem_of(answer, 400)["errors"])


# -- Pages


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(models.User.objects.create_superuser("root"))
    return client


def text(client: Client, page: str, name: str) -> str:
    shown = client.get(reverse(f"console:{page}", args=[name])).content.decode()
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", shown)).split())


def both(client: Client) -> list[str]:
    return [text(client, "device", "GPU-n1-0"), text(client, "node", "n1")]


def test_pages_of_devices_and_nodes_show_readings_with_source_and_age(desk: Client) -> None:
    rows.node()
    store(Sample("GPU-n1-0", condition=HOW))
    for shown in both(desk):
        assert "71 °C (slows down at 90) · 301 W (allowed 400)" in shown
        assert "▼ slowed by its power limit, heat, by the driver" in shown
        assert "last XID 31" in shown
        assert "by the driver, reported by the agent" in shown


def test_pages_say_what_a_driver_does_not_tell(desk: Client) -> None:
    rows.node()
    store(Sample("GPU-n1-0", memory_used_mib=1))
    for shown in both(desk):
        assert "temperature not told by the driver · power not told by the driver" in shown


@pytest.mark.parametrize(
    "agent, vendor, words",
    [
        ("1.0.0", "NVIDIA", "the node's agent has reported nothing of it"),
        ("", "NVIDIA", "HAMi's device plugin serves this node"),
        ("1.0.0", "Ascend", "the agent reads NVIDIA's devices only"),
    ],
)
def test_pages_say_why_nothing_is_read(desk: Client, agent: str, vendor: str, words: str) -> None:
    rows.node(vendor=vendor)
    with ledger.transaction(cause="test"):
        models.Node.objects.update(agent=agent)
    for shown in both(desk):
        assert words in shown


def test_a_sick_hot_and_old_reading_is_marked(desk: Client) -> None:
    rows.node()
    store(Sample("GPU-n1-0", condition=Condition(91, 90, slowed=(), ailment="XID 79")), age_s=3600)
    for shown in both(desk):
        assert all(one in shown for one in ("✕ XID 79", "▲ at its temperature limit", "▲ old"))


def test_a_reading_reaches_an_open_page_of_a_node(desk: Client) -> None:
    rows.node()
    address = reverse("console:node", args=["n1"])
    stamp = re.search(r"after=([\w.x-]+)", desk.get(address).content.decode())
    assert stamp is not None
    poll: dict[str, Any] = {"data": {"after": stamp[1]}, "headers": {"HX-Request": "true"}}
    assert desk.get(address, **poll).status_code == 204
    store(Sample("GPU-n1-0", condition=HOW))
    assert "71 °C" in desk.get(address, **poll).content.decode()


# -- REST


def test_rest_tells_the_reading_of_a_device_or_that_there_is_none() -> None:
    rows.node()
    store(Sample("GPU-n1-0", memory_used_mib=900, condition=HOW))
    rows.namespace_row("nlp")
    client = person("viewer", namespace="nlp")
    first, second = client.get(url("devices")).json()["results"]
    assert first["reading"] | {"temperature_c": 71, "slowed": "power_cap,heat_software", "xid": 31} == first["reading"]
    assert second["reading"] is None
    hot = client.get(url("devices"), {"temperature_from": 71}).json()["results"]
    assert [one["uuid"] for one in hot] == ["GPU-n1-0"]
    assert client.get(url("device", "GPU-n1-0")).json()["reading"]["power_w"] == 301
    sheet: Any = client.get(url("devices"), {"format": "csv"})
    assert "temperature_c" in b"".join(sheet.streaming_content).decode()
