"""What agents measured: kept by ten minutes, believed only of what is on their node, shown beside what is held."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from accounting import ledger, models
from accounting.selectors import access, measured
from accounting.services import measurements, node_seen, nodes, retention
from accounting.services.device_config import device_config
from accounting.services.measurements import Sample
from deviceplugin import monitor_report, monitor_samples
from hami_platform import env
from tests.accounting import rows
from tests.accounting.test_api_rest import client_of, person, problem_of, url

pytestmark = pytest.mark.django_db

REGISTERED = (
    '[{"id": "GPU-n1-0", "index": 0, "count": 10, "devmem": 24576, "devcore": 100, '
    '"type": "NVIDIA A10", "numa": 0, "mode": "hami-core", "health": true}]'
)
WHOLE = Sample("GPU-n1-0", memory_used_mib=900, core_used_percent=50)
SHARE = Sample("GPU-n1-0", "uid-p1", "main", 300, 20)


def store(*samples: Sample, node: str = "n1", age_s: int = 0) -> measurements.Stored | None:
    return measurements.measurements_store(node=node, age_s=age_s, samples=samples)


def busy() -> None:
    rows.node()
    rows.pod()


def kept() -> list[tuple[str, str, int | None, int | None, int | None]]:
    return [
        (row.pod_uid, row.container, row.memory_used_mib, row.memory_peak_mib, row.core_used_percent)
        for row in models.Measurement.objects.order_by("slot", "pod_uid")
    ]


@pytest.fixture
def at_noon(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A clock of the database that the test turns: seconds after noon."""
    now = [datetime(2026, 8, 21, 12, tzinfo=UTC)]
    monkeypatch.setattr(ledger, "database_time", lambda: now[0])

    def turn(seconds: int) -> None:
        now[0] = datetime(2026, 8, 21, 12, tzinfo=UTC) + timedelta(seconds=seconds)

    return turn


def test_ten_minutes_are_one_row_with_the_latest_and_the_peak(at_noon: Any) -> None:
    busy()
    for seconds, memory in ((60, 100), (120, 700), (180, 300)):
        at_noon(seconds)
        store(Sample("GPU-n1-0", "uid-p1", "main", memory, seconds // 60))
    assert kept() == [("uid-p1", "main", 300, 700, 3)]
    at_noon(600)
    store(SHARE)
    assert kept() == [("uid-p1", "main", 300, 700, 3), ("uid-p1", "main", 300, 300, 20)]


def test_repeating_a_report_changes_nothing(at_noon: Any) -> None:
    busy()
    at_noon(60)
    assert store(WHOLE, SHARE) == store(WHOLE, SHARE) == measurements.Stored(2, 0)
    assert kept() == [("", "", 900, 900, 50), ("uid-p1", "main", 300, 300, 20)]


def test_a_report_that_comes_late_raises_the_peak_and_leaves_the_latest(at_noon: Any) -> None:
    busy()
    at_noon(300)
    store(SHARE)
    store(Sample("GPU-n1-0", "uid-p1", "main", 5000, 99), age_s=120)
    assert kept() == [("uid-p1", "main", 300, 5000, 20)]


def test_what_was_not_measured_stays_unknown_and_zero_stays_zero(at_noon: Any) -> None:
    busy()
    at_noon(60)
    store(Sample("GPU-n1-0", core_used_percent=0))
    assert kept() == [("", "", None, None, 0)]


def test_only_devices_and_pods_of_the_node_are_believed() -> None:
    busy()
    rows.node("n2")
    rows.pod("far", node="n2", shares=(rows.Given("GPU-n2-0"),))
    rows.pod("over", state="ended")
    foreign = [
        Sample("GPU-n2-0", memory_used_mib=1),
        Sample("GPU-none", memory_used_mib=1),
        Sample("GPU-n1-0", "uid-far", "main", 1),
        Sample("GPU-n1-0", "uid-over", "main", 1),
        Sample("GPU-n1-0", "nobody", "main", 1),
    ]
    assert store(SHARE, *foreign) == measurements.Stored(1, 5)
    assert store(SHARE, node="n9") is None
    assert len(kept()) == 1


def test_a_report_is_a_sign_of_life() -> None:
    busy()
    models.NodeLiveness.objects.create(node=models.Node.objects.get(name="n1"))
    store(WHOLE)
    assert models.NodeLiveness.objects.get().report_at is not None


def test_rows_end_with_their_retention() -> None:
    busy()
    store(SHARE)
    old = ledger.database_time() - timedelta(days=env.current().measurement_keep_days, hours=1)
    models.Measurement.objects.update(slot=old)
    retention.retention_run()
    assert kept() == []


def test_a_database_that_is_away_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> datetime:
        raise OperationalError("gone")

    busy()
    monkeypatch.setattr(ledger, "database_time", away)
    with pytest.raises(ledger.LedgerUnavailable, match="gone"):
        store(SHARE)


# -- REST


def report(**changes: Any) -> dict[str, Any]:
    sample = {"uuid": "GPU-n1-0", "pod_uid": "uid-p1", "container": "main", "memory_used_mib": 300}
    return {"node": "n1", "age_s": 5, "samples": [sample | {"core_used_percent": 20}]} | changes


def agent() -> APIClient:
    user, _ = models.User.objects.get_or_create(username="agents")
    return client_of(user, ["agent"])


def test_an_agent_reports_and_others_may_not() -> None:
    busy()
    answer = agent().post(url("measurements"), report())
    assert (answer.status_code, answer.json()) == (200, {"stored": 1, "ignored": 0})
    shared = APIClient()
    shared.credentials(HTTP_AUTHORIZATION="Bearer s3cret")
    with env.override(internal_token="s3cret"):
        assert shared.post(url("measurements"), report()).status_code == 200
    problem_of(APIClient().post(url("measurements"), report()), 401)
    problem_of(person("member", namespace="nlp").post(url("measurements"), report()), 403)
    problem_of(person("operator", scopes=["read", "write"]).post(url("measurements"), report()), 403)
    problem_of(agent().get(url("measurements")), 403)


@pytest.mark.parametrize(
    "change, field",
    [
        ({"node": None}, "node"),
        ({"age_s": -1}, "age_s"),
        ({"age_s": 10**9}, "age_s"),
        ({"samples": [{"uuid": ""}]}, "samples.0.uuid"),
        ({"samples": [{"uuid": "x", "memory_used_mib": -1}]}, "samples.0.memory_used_mib"),
        ({"samples": [{"uuid": "x", "core_used_percent": 2**40}]}, "samples.0.core_used_percent"),
        ({"samples": [{"uuid": "x"}] * 2001}, "samples"),
        ({"samples": "many"}, "samples"),
    ],
)
def test_a_bad_report_is_refused_at_its_field(change: dict[str, Any], field: str) -> None:
    busy()
    body = problem_of(agent().post(url("measurements"), report(**change)), 400)
    assert body["errors"][0]["field"].startswith(field.partition(".0")[0])
    assert kept() == []


def test_what_the_agent_sends_is_what_is_understood() -> None:
    busy()
    measured_ = (monitor_samples.Sample("GPU-n1-0", "", "", 900, None), monitor_samples.Sample(*SHARE.key, 300, 20))
    body = monitor_report.Batch(until_s=100.0, samples=measured_).body("n1", now_s=130.4)
    answer = agent().post(url("measurements"), body, format="json")
    assert answer.json() == {"stored": 2, "ignored": 0}
    assert kept() == [("", "", 900, 900, None), ("uid-p1", "main", 300, 300, 20)]
    assert monitor_report.SAMPLES_MOST <= measurements.SAMPLES_MOST


def test_a_report_of_an_unknown_node_need_not_be_repeated() -> None:
    problem_of(agent().post(url("measurements"), report()), 404)


def test_people_read_devices_and_the_pods_that_they_see() -> None:
    busy()
    rows.pod("q1", namespace="cv")
    store(WHOLE, SHARE, Sample("GPU-n1-0", "uid-q1", "main", 1, 1))
    root = client_of(models.User.objects.create_superuser("root"))
    assert len(root.get(url("measurements")).json()["results"]) == 3
    (mine,) = root.get(url("measurements"), {"pod_uid": "uid-p1"}).json()["results"]
    assert (mine["memory_used_mib"], mine["memory_peak_mib"], mine["core_used_percent"]) == (300, 300, 20)
    seen = person("member", namespace="cv").get(url("measurements"), {"uuid": "GPU-n1-0"}).json()["results"]
    assert {one["pod_uid"] for one in seen} == {"", "uid-q1"}


# -- Selectors


def test_the_latest_of_a_device_with_its_shares() -> None:
    busy()
    store(WHOLE, SHARE)
    found = measured.device_measured(uuid="GPU-n1-0", node="n1", reach=access.ALL)
    assert found.whole is not None
    assert (found.whole.memory_used_mib, found.whole.old, found.missing) == (900, False, "")
    assert [(one.pod_uid, one.memory_used_mib) for one in found.shares] == [("uid-p1", 300)]
    blind = measured.device_measured(uuid="GPU-n1-0", node="n1", reach=access.Reach(namespaces=frozenset({"cv"})))
    assert blind.shares == ()


def test_a_share_has_what_it_was_given_as_its_denominator() -> None:
    """A fifth of a card that is busy is 20 % of the card, and all of the share."""
    rows.node()
    twice = (rows.Given(memory_mib=1000, core_percent=5), rows.Given(memory_mib=2000, core_percent=15))
    rows.pod(shares=twice)
    store(SHARE)
    (share,), _ = measured.pod_measured(uid="uid-p1", node="n1")
    assert (share.memory_used_mib, share.given_mib) == (300, 3000)
    assert (share.core_used_percent, share.given_percent) == (20, 20)


def test_an_old_figure_says_that_it_is_old() -> None:
    busy()
    store(SHARE, age_s=measured.OLD_S + 10)
    (share,), missing = measured.pod_measured(uid="uid-p1", node="n1")
    assert (share.old, missing) == (True, "")


def test_without_a_figure_the_reason_is_told() -> None:
    busy()
    assert measured.pod_measured(uid="uid-p1", node="n1") == ((), measured.HAMIS_PLUGIN)
    assert measured.pod_measured(uid="", node="") == ((), "")
    with ledger.transaction(cause="test"):
        node = models.Node.objects.get(name="n1")
        node.agent = "1.0"
        node.save(update_fields=["agent"])
    assert measured.device_measured(uuid="GPU-n1-0", node="n1", reach=access.ALL).missing == measured.SILENT


# -- Pages


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(models.User.objects.create_superuser("root"))
    return client


def page(client: Client, name: str, *args: str, **query: str) -> str:
    answer = client.get(reverse(f"console:{name}", args=args), query)
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", answer.content.decode().replace("\u202f", " ")))


def test_pages_show_measured_beside_held_with_source_and_age(desk: Client) -> None:
    busy()
    store(WHOLE, SHARE)
    device = page(desk, "device", "GPU-n1-0")
    assert "900 MiB in use, at most 900 in its ten minutes. Cores busy: 50 %. by the driver" in device
    assert "nlp/p1 main 300 20" in device
    assert "main GPU-n1-0 300 300 20" in page(desk, "pod", "uid-p1")


def test_pages_say_why_nothing_is_measured(desk: Client) -> None:
    busy()
    assert "Not measured: HAMi's device plugin" in html.unescape(page(desk, "device", "GPU-n1-0"))
    assert "Not measured: HAMi's device plugin" in html.unescape(page(desk, "pod", "uid-p1"))


def test_memory_that_nobody_holds_is_pointed_out(desk: Client) -> None:
    busy()
    store(Sample("GPU-n1-0", memory_used_mib=4096 + measured.DRIVERS_MIB, core_used_percent=1))
    assert "more are in use than are held" not in page(desk, "device", "GPU-n1-0")
    store(Sample("GPU-n1-0", memory_used_mib=4096 + 5000, core_used_percent=1))
    assert "5 000 MiB more are in use than are held" in page(desk, "device", "GPU-n1-0")


def test_a_measurement_reaches_an_open_page(desk: Client) -> None:
    busy()
    address = reverse("console:device", args=["GPU-n1-0"])
    stamp = desk.get(address).context["stamp"]
    poll: dict[str, Any] = {"HTTP_HX_REQUEST": "true"}
    assert desk.get(address, {"after": stamp}, **poll).status_code == 204
    store(WHOLE)
    assert desk.get(address, {"after": stamp}, **poll).status_code == 200


@pytest.mark.parametrize(
    "limits, words",
    [
        ("enforced", "limits enforced"),
        ("count-only", "count only: nothing on the node holds containers"),
        ("missing", "limiting library missing: containers with shares do not start"),
    ],
)
def test_the_node_says_whether_anything_holds_containers_to_their_shares(desk: Client, limits: str, words: str) -> None:
    labels = {"platform.hami.io/agent": "1.0", "platform.hami.io/limits": limits}
    annotations = {"hami.io/node-nvidia-register": REGISTERED}
    node = {"metadata": {"name": "n1", "uid": "u1", "labels": labels, "annotations": annotations}}
    nodes.nodes_observe([node_seen.from_object(node, device_config())], config=device_config())
    assert words in page(desk, "node", "n1")
    root = client_of(models.User.objects.get(username="root"))
    assert root.get(url("node", "n1")).json()["limits"] == limits
