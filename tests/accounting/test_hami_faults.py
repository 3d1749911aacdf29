"""What HAMi v2.10.0 gets wrong in its accounting (the K numbers of docs/compatibility.md), with what is right here.

Tests of the others stand beside what they are about; `tests/test_compatibility.py` lists them all.
"""

from __future__ import annotations

import pytest

from accounting import live_view
from accounting.models import Finding, Node, NodeLock
from accounting.services import bindings, devices, lock_repair, native_quotas, nodes, observe, reconcile
from accounting.services.node_seen import from_object as node_from
from hami_platform import env
from hami_platform.domain.reasons import Reason
from hami_platform.domain.wire import node_register
from tests import builders
from tests.accounting import flow, kube_objects, rows

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]

ALLOCATED, NODE = "hami.io/vgpu-devices-allocated", "hami.io/vgpu-node"


def test_k6_a_pod_first_seen_after_its_init_ended_holds_what_its_app_needs() -> None:
    flow.cluster()
    text = "GPU-n1,NVIDIA,20480,0:;GPU-n1,NVIDIA,10240,0:;"
    statuses = {"load": kube_objects.terminated(), "main": kube_objects.running()}
    pod = kube_objects.pod(
        "p", kube_objects.container(mem=10240), inits=[kube_objects.container("load", mem=20480)], node="n1",
        phase="Running", statuses=statuses, annotations={ALLOCATED: text, NODE: "n1"},
    )  # fmt: skip
    flow.show(pod)
    assert (flow.used_mib(), flow.charged_mib()) == (10240, 10240)


def test_k8_a_pod_that_is_being_deleted_counts_when_it_is_first_seen() -> None:
    flow.cluster()
    notes = {ALLOCATED: "GPU-n1,NVIDIA,8000,30:;", NODE: "n1"}
    statuses = {"main": kube_objects.running()}
    pod = kube_objects.pod(
        "p", kube_objects.container(mem=8000), node="n1", phase="Running", deleting=True, statuses=statuses,
        annotations=notes,
    )  # fmt: skip
    flow.show(pod)
    assert (flow.state(pod), flow.used_mib()) == ("releasing", 8000)


def test_k9_annotations_left_on_an_unbound_pod_hold_nothing() -> None:
    flow.cluster()
    notes = {ALLOCATED: "GPU-n1,NVIDIA,20000,30:;", NODE: "n1"}
    pod = kube_objects.pod("p", kube_objects.container(mem=20000), annotations=notes)
    flow.show(pod)
    assert flow.used_mib() == 0
    assert flow.filter_(kube_objects.pod("q", mem=20000)).node == "n1"


def test_k13_devices_registered_in_another_order_write_nothing() -> None:
    cards = [builders.device(f"GPU-{i}", index=i) for i in range(3)]
    texts = ["[" + ",".join(node_register.encode([one])[1:-1] for one in order) + "]" for order in (cards, cards[::-1])]
    assert texts[0] != texts[1]
    flow.cluster(kube_objects.node(annotations={"hami.io/node-nvidia-register": texts[0]}))
    revision = live_view.live().refresh().clock.revision
    flow.observe_nodes(kube_objects.node(annotations={"hami.io/node-nvidia-register": texts[1]}))
    assert live_view.live().refresh().clock.revision == revision


def test_k17_a_placement_makes_only_its_own_node_anew() -> None:
    flow.cluster(kube_objects.node("n1"), kube_objects.node("n2"))
    before = live_view.live().refresh().states
    flow.run(kube_objects.pod(mem=1000))
    after = live_view.live().refresh().states
    assert after["n2"] is before["n2"]
    assert after["n1"] is not before["n1"]


def test_k20_the_least_of_several_resource_quotas_binds_in_any_order() -> None:
    flow.cluster()

    def native(name: str, limit: str) -> dict[str, object]:
        return {"metadata": {"namespace": "nlp", "name": name}, "spec": {"hard": {"limits.nvidia.com/gpumem": limit}}}

    for objects in ([native("a", "1000"), native("b", "5000")], [native("b", "5000"), native("a", "1000")]):
        native_quotas.native_quotas_observe(objects, config=flow.CONFIG, complete=True)
        assert not flow.admit(kube_objects.pod("p", mem=1001)).granted
    native_quotas.native_quota_gone(namespace="nlp", name="b")
    assert not flow.admit(kube_objects.pod("q", mem=1001)).granted


def test_k24_a_mig_card_stays_open_from_filter_on() -> None:
    rows.node("n1", 1, mode="mig", mig_profiles=rows.mig_profiles())
    reconcile.compared()
    flow.admit(pod := kube_objects.pod("p", mem=1000))
    assert flow.filter_(pod).node == "n1"
    (card,) = live_view.live().refresh().states["n1"].devices
    assert len(card.held.mig) == 1
    assert card.unusable is None
    flow.admit(other := kube_objects.pod("q", mem=1000))
    assert flow.filter_(other).node == "n1"


def test_k20_a_limit_in_bytes_is_taken_as_it_is_and_told() -> None:
    flow.cluster()

    def shown(limit: str) -> None:
        hard = {"limits.nvidia.com/gpumem": limit}
        one = {"metadata": {"namespace": "nlp", "name": "q"}, "spec": {"hard": hard}}
        native_quotas.native_quotas_observe([one], config=flow.CONFIG, complete=True)

    for limit in ("24Gi", "9223372036854775807"):
        shown(limit)
        found = Finding.objects.get(kind="quota-unit", repaired_at=None)
        assert found.subject == "nlp/q: limits.nvidia.com/gpumem"
        assert flow.admit(kube_objects.pod(f"p{limit}", mem=20000), dry_run=True).granted
    shown("24Gi")
    assert "write 24576" in Finding.objects.get(kind="quota-unit", repaired_at=None).message
    shown("24576")
    assert not Finding.objects.filter(kind="quota-unit", repaired_at=None).exists()
    shown("24Gi")
    native_quotas.native_quota_gone(namespace="nlp", name="q")
    assert not Finding.objects.filter(kind="quota-unit", repaired_at=None).exists()


def test_a_limit_that_no_row_could_hold_stops_no_other_quota() -> None:
    flow.cluster()
    hard = {"limits.cambricon.com/mlu.smlu.vmemory": "9223372036854775807", "limits.nvidia.com/gpumem": "1000"}
    one = {"metadata": {"namespace": "nlp", "name": "q"}, "spec": {"hard": hard}}
    assert native_quotas.native_quotas_observe([one], config=flow.CONFIG, complete=True) == 2
    assert not flow.admit(kube_objects.pod("p", mem=1001)).granted


@pytest.mark.parametrize("largest, node", [(False, ""), (True, "n1")])
def test_k43_a_whole_mig_card_is_its_largest_instance_where_that_is_configured(largest: bool, node: str) -> None:
    rows.node("n1", 1, mode="mig", mig_profiles=rows.mig_profiles())
    reconcile.compared()
    flow.admit(pod := kube_objects.pod("p"))
    with env.override(mig_whole_is_largest=largest):
        assert flow.filter_(pod).node == node


def test_h21_status_updates_of_a_quota_write_nothing_and_never_open_it() -> None:
    flow.cluster()
    full = {"metadata": {"namespace": "nlp", "name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "1000"}}}
    native_quotas.native_quotas_observe([full], config=flow.CONFIG, complete=True)
    flow.run(kube_objects.pod("first", mem=1000))
    revision = live_view.live().refresh().clock.revision
    for used in range(200):
        updated = full | {"status": {"hard": {"limits.nvidia.com/gpumem": "1000"}, "used": {"pods": str(used)}}}
        assert native_quotas.native_quotas_observe([updated], config=flow.CONFIG, complete=used % 2 == 0) == 0
        if used % 20 == 0:
            assert not flow.admit(kube_objects.pod(f"p{used}", mem=1), dry_run=True).granted
    assert live_view.live().refresh().clock.revision == revision


def test_h57_a_node_that_comes_back_under_its_name_has_nothing_of_before() -> None:
    sick = kube_objects.node("n1", builders.device("GPU-n1", healthy=False))
    locked = kube_objects.node("n1", annotations={"hami.io/mutex.lock": "2026-01-01T00:00:00Z,nlp,gone"})
    flow.cluster(kube_objects.node("n1"))
    flow.run(kube_objects.pod("gone", mem=8000))
    flow.run(kube_objects.pod("stays", mem=4000))
    flow.observe_nodes(sick)
    lock_repair.locks_observe([node_from(locked, flow.CONFIG)])
    assert NodeLock.objects.filter(node="n1").exists()
    observe.pods_gone(["uid-gone"])
    nodes.nodes_gone(["n1"])
    assert Node.objects.get(name="n1").retired
    assert "n1" not in live_view.live().refresh().states
    assert flow.charged_mib() == 4000, "a pod that exists keeps its namespace's charge"
    flow.observe_nodes(kube_objects.node("n1"))
    lock_repair.locks_observe([node_from(kube_objects.node("n1"), flow.CONFIG)])
    assert not NodeLock.objects.filter(node="n1").exists()
    (card,) = live_view.live().refresh().states["n1"].devices
    assert (card.device.healthy, card.held.memory_mib, card.unusable) == (True, 4000, None)
    flow.view_is_true()
    observe.pods_gone(["uid-stays"])
    assert (flow.used_mib(), flow.charged_mib()) == (0, 0)


def test_h32_a_pod_that_its_kubelet_refused_holds_neither_card_nor_lock() -> None:
    flow.cluster()
    pod = kube_objects.pod(mem=3000)
    flow.admit(pod)
    flow.filter_(pod)
    plan = flow.bind(pod)
    assert isinstance(plan, bindings.BindingPlan)
    bindings.binding_bound(uid=plan.uid, node="n1")
    assert NodeLock.objects.filter(node="n1").exists()
    failed = kube_objects.pod(mem=3000, node="n1", phase="Failed", annotations=plan.annotations)
    failed["status"]["reason"] = "UnexpectedAdmissionError"
    flow.show(failed)
    assert (flow.used_mib(), flow.charged_mib()) == (0, 0)
    assert not NodeLock.objects.filter(node="n1").exists()


def test_k15_a_cordon_counts_at_the_next_pass_and_falls_with_the_next() -> None:
    flow.cluster(kube_objects.node())
    cordoned = kube_objects.node(annotations={"hami.io/device-cordon": "GPU-n1"})
    for shown, expected in ((cordoned, Reason.CARD_CORDONED), (kube_objects.node(), None)):
        flow.observe_nodes(shown)
        (card,) = live_view.live().refresh().states["n1"].devices
        assert card.unusable is expected


def test_a_person_s_cordon_stays_when_the_annotation_goes() -> None:
    flow.cluster(kube_objects.node())
    devices.device_cordon(node="n1", vendor="NVIDIA", uuid="GPU-n1", cordoned=True, reason="broken fan", actor="ann")
    flow.observe_nodes(kube_objects.node())
    (card,) = live_view.live().refresh().states["n1"].devices
    assert card.unusable is Reason.CARD_CORDONED
