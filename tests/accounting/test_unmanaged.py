"""Pods with devices that came past the platform: bound by name, by another scheduler, or where the webhook was away.

| what they use | is known from | counts as |
|---|---|---|
| nothing yet: unbound, for another scheduler | | a claim like everybody's |
| some devices of a node | nothing | the node takes no new pods with devices |
| devices of a node | its annotations | what they state |
| devices of a node | the kubelet, by the agent | all of those devices |
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from accounting import live_view
from accounting.models import Finding, Pod
from accounting.services import reconcile, unmanaged
from hami_platform import env
from tests import builders
from tests.accounting import flow, simulated
from tests.accounting.simulated import World

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]
CONFIG = flow.CONFIG
ALLOCATED = "hami.io/vgpu-devices-allocated"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """One node of two cards, compared."""
    with simulated.world(tmp_path) as made:
        made.node("n1", builders.device("GPU-a"), builders.device("GPU-b", index=1))
        reconcile.everything_reconcile(made.api, config=CONFIG)
        yield made


def look(world: World) -> None:
    reconcile.pods_reconcile(world.api, config=CONFIG)


def bypassing(world: World, name: str = "stray", **notes: str) -> None:
    """A pod that somebody else has bound to n1."""
    world.pod(name, mem=8000)
    world.bind(name, "n1", notes)
    look(world)


def test_nothing_is_placed_over_a_pod_whose_devices_nobody_knows(world: World) -> None:
    bypassing(world)
    assert Pod.objects.get().unmanaged
    finding = Finding.objects.get(kind="unmanaged-pod")
    assert (finding.subject, finding.evidence["node"], finding.repaired_at) == ("nlp/stray", "n1", None)
    assert flow.filter_(world.pod("other", mem=1000)).reason == "NodeAccountingUnknown"
    flow.view_is_true()


def test_when_it_has_ended_the_node_takes_pods_again(world: World) -> None:
    bypassing(world)
    other = world.pod("other", mem=1000)
    world.status("stray", phase="Failed")
    look(world)
    assert flow.filter_(other).node == "n1"
    assert Finding.objects.get(kind="unmanaged-pod").repair == "it has ended"


def test_what_its_annotations_state_is_counted_there(world: World) -> None:
    bypassing(world, **{ALLOCATED: "GPU-b,NVIDIA,20000,50:;"})
    assert (flow.used_mib("GPU-a"), flow.used_mib("GPU-b")) == (0, 20000)
    assert flow.filter_(world.pod("other", mem=8000)).node == "n1"
    assert flow.used_mib("GPU-a") == 8000


def test_what_the_kubelet_says_is_counted_whole(world: World) -> None:
    bypassing(world)
    assert unmanaged.unmanaged_use_set(node="n1", namespace="nlp", name="stray", uuids=["GPU-a"])
    assert (flow.used_mib("GPU-a"), flow.charged_mib()) == (24576, 24576)
    assert flow.filter_(world.pod("other", mem=8000)).node == "n1"
    assert flow.used_mib("GPU-b") == 8000
    assert Finding.objects.get(kind="unmanaged-pod").repair == "counted on GPU-a"
    revision = live_view.live().refresh().clock.revision
    assert unmanaged.unmanaged_use_set(node="n1", namespace="nlp", name="stray", uuids=["GPU-a"]), "no news"
    assert live_view.live().refresh().clock.revision == revision
    flow.view_is_true()
    world.delete("stray")
    look(world)
    assert flow.used_mib("GPU-a") == 0


def test_pods_and_devices_that_the_ledger_does_not_know_yet_are_told_again(world: World) -> None:
    bypassing(world)
    assert not unmanaged.unmanaged_use_set(node="n1", namespace="nlp", name="stray", uuids=["GPU-a", "GPU-x"])
    assert not unmanaged.unmanaged_use_set(node="n1", namespace="nlp", name="nobody", uuids=["GPU-a"])
    assert live_view.live().refresh().states["n1"].blocked


def test_a_pod_of_ours_is_not_charged_by_a_report(world: World) -> None:
    world.placed("ours", mem=4000)
    look(world)
    before = (flow.used_mib("GPU-a"), flow.used_mib("GPU-b"))
    assert unmanaged.unmanaged_use_set(node="n1", namespace="nlp", name="ours", uuids=["GPU-a", "GPU-b"])
    assert (flow.used_mib("GPU-a"), flow.used_mib("GPU-b")) == before


def test_it_is_listed_over_rest_and_on_the_pages(world: World) -> None:
    bypassing(world)
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("root", password="x"))
    listed = client.get("/api/v1/pods?state=unmanaged").json()["results"]
    assert [(one["name"], one["unmanaged"]) for one in listed] == [("stray", True)]
    page = client.get("/pods?state=unmanaged").content.decode()
    assert ">stray</a>" in page
    assert "came past the webhook" in page
    assert b"unmanaged-pod" in client.get("/findings").content


def test_the_agent_reports_its_devices(world: World) -> None:
    bypassing(world)
    body = {"node": "n1", "namespace": "nlp", "name": "stray", "devices": ["GPU-b"]}
    with env.override(internal_token="t"):
        headers = {"Authorization": "Bearer t"}
        answer = Client().post("/api/agent/unmanaged", body, content_type="application/json", headers=headers)
        refused = Client().post("/api/agent/unmanaged", body, content_type="application/json")
        early = {**body, "name": "not seen yet"}
        later = Client().post("/api/agent/unmanaged", early, content_type="application/json", headers=headers)
    assert (answer.status_code, refused.status_code, later.status_code) == (204, 401, 503)
    assert flow.used_mib("GPU-b") == 24576
