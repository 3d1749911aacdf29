"""Nodes as the API server shows them become inventory; what people decided is never touched."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine

from accounting import ledger, live_view
from accounting.models import Device, Finding, Journal, Node, NodeLiveness
from accounting.services import devices, node_seen, nodes, pace
from tests import builders
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]


def offered(node: str = "n1") -> list[str]:
    """uuids that placement sees on a node."""
    state = live_view.live().refresh().states.get(node)
    return [one.device.uuid for one in state.devices] if state else []


def test_the_same_node_twice_writes_once() -> None:
    flow.cluster()
    revision = live_view.live().refresh().clock.revision
    flow.observe_nodes(kube_objects.node())
    assert live_view.live().refresh().clock.revision == revision


def test_what_people_decided_survives_every_observation() -> None:
    flow.cluster()
    devices.device_reserve(node="n1", vendor="NVIDIA", uuid="GPU-n1", reserved_mib=512, reason="driver", actor="ann")
    flow.observe_nodes(kube_objects.node("n1", builders.device("GPU-n1", memory_mib=30000)))
    row = Device.objects.get()
    assert (row.memory_mib, row.reserved_mib) == (30000, 512)
    flow.view_is_true()


def test_h56_a_device_that_is_not_registered_any_more_is_not_offered() -> None:
    flow.cluster(kube_objects.node("n1", builders.device("GPU-a"), builders.device("GPU-b", index=1)))
    flow.observe_nodes(kube_objects.node("n1", builders.device("GPU-a")))
    assert offered() == ["GPU-a"]
    flow.observe_nodes(kube_objects.node("n1", builders.device("GPU-a"), builders.device("GPU-b", index=1)))
    assert offered() == ["GPU-a", "GPU-b"]


def test_an_unreadable_registration_keeps_the_devices_and_says_so() -> None:
    flow.cluster()
    flow.observe_nodes(kube_objects.node(annotations={"hami.io/node-nvidia-register": "not json"}))
    assert offered() == ["GPU-n1"]
    assert "NVIDIA" in Node.objects.get().problem
    assert Finding.objects.filter(kind="unreadable-registration", repaired_at=None).count() == 1
    flow.observe_nodes(kube_objects.node())
    assert not Finding.objects.filter(kind="unreadable-registration", repaired_at=None).exists()


def test_a_uuid_on_two_nodes_is_usable_on_neither() -> None:
    same = builders.device("GPU-x")
    flow.cluster(kube_objects.node("n1", same), kube_objects.node("n2", same))
    assert (offered("n1"), offered("n2")) == ([], [])
    nodes.nodes_gone(["n2"])
    assert offered("n1") == ["GPU-x"]
    flow.view_is_true()


def test_a_retired_node_offers_nothing_and_its_pods_keep_their_charge() -> None:
    flow.cluster()
    flow.run(kube_objects.pod(mem=8000))
    nodes.nodes_gone(["n1"])
    assert (offered(), flow.charged_mib()) == ([], 8000)
    flow.observe_nodes(kube_objects.node())
    assert (offered(), flow.used_mib()) == (["GPU-n1"], 8000)
    flow.view_is_true()


@pytest.mark.parametrize(
    "allocatable,silent_s,there",
    [(10, 90, True), (0, 90, False), (0, 10, True)],
    ids=["h55a", "h55b", "allocatable 0 but fresh"],
)
def test_h55_a_plugin_is_gone_when_nothing_is_allocatable_and_nothing_was_heard(
    allocatable: int, silent_s: int, there: bool
) -> None:
    flow.cluster()
    heard = ledger.database_time() - timedelta(seconds=silent_s)
    NodeLiveness.objects.update(first_seen_at=heard, handshake_at=heard)
    flow.observe_nodes(kube_objects.node(allocatable=allocatable))
    assert (offered() == ["GPU-n1"]) is there
    flow.view_is_true()


def test_the_cordon_annotation_takes_a_device_out_for_new_pods() -> None:
    flow.cluster(kube_objects.node(annotations={"hami.io/device-cordon": " GPU-n1 ,"}))
    pod = kube_objects.pod(mem=1000)
    flow.admit(pod)
    answer = flow.filter_(pod)
    assert answer.decision is not None
    assert answer.decision.rejections["n1"].text() == "1/1 CardCordoned"


def test_a_node_without_registration_gets_no_row() -> None:
    flow.observe_nodes({"metadata": {"name": "cpu", "uid": "u"}, "status": {}})
    assert not Node.objects.exists()


def test_time_is_the_database_s_not_this_process_s() -> None:
    with time_machine.travel("2001-01-01"):
        assert ledger.database_time().year > 2001


def _seen(found: list[node_seen.NodeSeen]) -> None:
    nodes.nodes_observe(found, config=flow.CONFIG)


def test_two_who_see_the_same_new_nodes_write_them_once() -> None:
    found = [node_seen.from_object(kube_objects.node(f"many-{n}"), flow.CONFIG) for n in range(pace.FIRST * 2)]
    nodes.nodes_observe(found, config=flow.CONFIG, between=lambda: _seen(found))
    assert Journal.objects.filter(kind="node").count() == len(found)


def test_who_lists_thousands_of_nodes_gets_a_word_in_after_each_transaction() -> None:
    flow.cluster()
    objects = (kube_objects.node(f"many-{number}") for number in range(pace.FIRST * 2 + 1))
    found = [node_seen.from_object(one, flow.CONFIG) for one in objects]
    turns: list[int] = []
    nodes.nodes_observe(found, config=flow.CONFIG, between=lambda: turns.append(1))
    assert len(turns) >= 2
