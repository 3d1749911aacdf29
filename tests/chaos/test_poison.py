"""Objects that the API server accepts and a database refuses: one of them never keeps the others from being seen.

| who | writes | then |
|---|---|---|
| any user | an owner reference with a name of 2,000 characters, or a NUL in it | cut, cleaned; the pod is counted |
| any user | a NUL in an annotation that chooses devices | denied by key at admission; later: nobody may place the pod |
| whoever comes past the webhook | allocation rows that no ledger can hold | the node takes no new pods and says why |
| a device plugin | names that are too long, NULs | the vendor's registration is unreadable; the node stays as it was |
"""

from __future__ import annotations

from typing import Any

import pytest

from accounting import live_view
from accounting.models import Finding, Node, NodeLock
from accounting.services import lock_repair, node_seen
from tests import builders
from tests.accounting import flow, kube_objects
from tests.scheduler_ext.world import World, container
from tests.scheduler_ext.world import pod as new_pod

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.ledger]

ALLOCATED = "hami.io/vgpu-devices-allocated"
MIG = "hami.io/vgpu-mig-allocations"
USE_MODEL = "nvidia.com/use-gputype"


def owned_by(name: str) -> dict[str, Any]:
    pod = kube_objects.pod("poison", mem=1000)
    pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": name, "controller": True}]
    return pod


@pytest.mark.parametrize("name", ["y" * 2000, "y\0y"], ids=["long", "nul"])
def test_an_owner_that_cannot_be_stored_stops_no_pod_from_being_counted(name: str) -> None:
    flow.cluster()
    flow.show(owned_by(name), kube_objects.pod("after", mem=1000))
    assert flow.charged_mib() == 2000
    assert flow.filter_(owned_by(name)).node == "n1"
    flow.view_is_true()


def test_a_nul_in_an_annotation_stops_neither_the_watch_nor_fails_open() -> None:
    flow.cluster()
    poison = kube_objects.pod("poison", mem=1000, annotations={USE_MODEL: "A100\0", "any": "\0"})
    flow.show(poison, kube_objects.pod("after", mem=1000))
    assert flow.state(kube_objects.pod("after")) == "claimed"


def test_a_nul_in_an_annotation_is_denied_by_key_and_elsewhere_no_matter(world: World) -> None:
    denied = world.admit(new_pod("a", container(gpu=1), annotations={USE_MODEL: "A100\0"}))
    assert not denied["allowed"]
    assert USE_MODEL in denied["status"]["message"]
    assert world.admit(new_pod("b", container(gpu=1), annotations={"mine": "\0"}))["allowed"]


ROWS = {
    "long uuid": "G" * 300 + ",NVIDIA,1,1:;",
    "long vendor": "G," + "V" * 300 + ",1,1:;",
    "40,000 containers": ";" * 40000 + "G,NVIDIA,1,1:;",
    "sum out of range": "GPU-n1,NVIDIA,2147483647,2147483647:" * 3 + ";",
}


@pytest.mark.parametrize("text", ROWS.values(), ids=ROWS)
def test_allocation_rows_that_cannot_be_stored_take_the_node_out_until_the_pod_is_gone(text: str) -> None:
    flow.cluster(kube_objects.node(), kube_objects.node("n2"))
    poison = kube_objects.pod("poison", mem=1000, node="n1", annotations={ALLOCATED: text})
    flow.show(poison, kube_objects.pod("after", mem=1000))
    flow.show(poison)
    assert flow.state(kube_objects.pod("after")) == "claimed"
    assert flow.filter_(kube_objects.pod("after", mem=1000), "n1").node == ""
    assert flow.filter_(kube_objects.pod("after", mem=1000)).node == "n2"
    flow.view_is_true()
    flow.show(poison | {"status": {"phase": "Failed"}, "metadata": poison["metadata"] | {"resourceVersion": "9999"}})
    assert flow.filter_(kube_objects.pod("later", mem=20000, version=10000), "n1").node == "n1"


def test_mig_instances_that_cannot_be_stored_are_undecodable() -> None:
    flow.cluster()
    where = '"placement":{"start":99999,"size":99999}'
    text = f'[{{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-n1","profile":"{"p" * 300}",{where}}}]'
    flow.show(kube_objects.pod("m", node="n1", annotations={ALLOCATED: "GPU-n1,NVIDIA,1,1:;", MIG: text}))
    assert Node.objects.get().accounting_unknown


@pytest.mark.parametrize(
    "device",
    [
        builders.device("G" * 300),
        builders.device("GPU-n1", model="M" * 300),
        builders.device("GPU-n1", mode="m" * 300),
        builders.device("G\0", model="M\0"),
    ],
    ids=["uuid", "model", "mode", "nul"],
)
def test_a_registration_that_cannot_be_stored_is_unreadable_and_harms_no_other_node(device: Any) -> None:
    flow.cluster(kube_objects.node("n1"))
    flow.observe_nodes(kube_objects.node("n1", device), kube_objects.node("n2"))
    assert "n2" in live_view.live().refresh().states
    flow.view_is_true()


def test_nobody_can_hide_a_node_behind_an_agent_label_that_cannot_be_stored() -> None:
    """No label may be so long; whatever is unforeseen ends like this."""
    flow.cluster(kube_objects.node("n1"))
    flow.observe_nodes(kube_objects.node("n1", agent="v" * 300), kube_objects.node("n2"))
    assert "n2" in live_view.live().refresh().states
    if Node.objects.get(name="n1").agent != "v" * 300:  # SQLite takes it
        assert Finding.objects.get().subject == "n1"


@pytest.mark.parametrize("text", ["v" * 3000, "2026-01-01T00:00:00Z,a\0,b"], ids=["long", "nul"])
def test_a_lock_text_that_cannot_be_stored_is_mirrored_once_and_ages(text: str) -> None:
    node = kube_objects.node("n1", annotations={node_seen.LOCK: text, "hami.io/node-handshake": "\0"})
    flow.cluster(node)
    seen = [node_seen.from_object(node, flow.CONFIG)]
    assert lock_repair.locks_observe(seen) == 1
    first = NodeLock.objects.get().first_seen_at
    assert lock_repair.locks_observe(seen) == 0
    assert NodeLock.objects.get().first_seen_at == first
