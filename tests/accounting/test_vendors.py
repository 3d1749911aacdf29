"""Devices of several vendors go one way: quota, reservation, life and the answer to why are the same for all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accounting import live_view
from accounting.services import bindings, native_quotas, observe, what_if
from hami_platform.domain import explain
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]

MLU, MEMORY, CORES = "cambricon.com/vmlu", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore"
CARD = "n1-cambricon-mlu-0"


def node(cards: int = 1) -> dict[str, Any]:
    """A node with an NVIDIA card and so many Cambricon cards of 20 GiB."""
    found = kube_objects.node(agent="")
    found["status"]["allocatable"][MLU] = "100"
    found["status"]["capacity"] = {CORES: str(100 * cards), MEMORY: str(80 * cards)}
    return found


def container(name: str = "main", *, units: int, cores: int = 10) -> dict[str, Any]:
    """A container that asks for so many units of 256 MiB on one Cambricon card."""
    limits = {MLU: "1", MEMORY: str(units), CORES: str(cores)}
    return {"name": name, "image": "busybox", "resources": {"limits": limits}}


def native_limit(units: int) -> None:
    hard = {f"limits.{MEMORY}": str(units)}
    quota = {"metadata": {"namespace": "nlp", "name": "q"}, "spec": {"hard": hard}}
    native_quotas.native_quotas_observe([quota], config=flow.CONFIG, complete=True)


def test_h24_a_quota_in_units_of_another_vendor_counts_in_mib() -> None:
    flow.cluster(node())
    native_limit(40)
    flow.run(kube_objects.pod("used", container(units=36)))
    denied = flow.admit(kube_objects.pod("more", container(units=8)))
    assert not denied.granted
    assert "needs 2048, free 1024 of 10240" in denied.message
    assert flow.admit(kube_objects.pod("fits", container(units=4))).granted
    assert flow.charged_mib() == 10240


def test_h44_two_vendors_in_one_pod_have_a_key_each_and_a_row_for_each_container() -> None:
    flow.cluster(node())
    pod = kube_objects.pod("both", kube_objects.container("a", mem=1000, cores=10), container("b", units=8, cores=20))
    flow.admit(pod)
    assert flow.filter_(pod).node == "n1"
    plan = flow.bind(pod)
    assert isinstance(plan, bindings.BindingPlan)
    assert plan.annotations["hami.io/vgpu-devices-allocated"] == "GPU-n1,NVIDIA,1000,10:;;"
    assert plan.annotations["hami.io/cambricon-mlu-devices-allocated"] == f";{CARD},MLU,2048,20:;"
    assert plan.annotations["CAMBRICON_DSMLU_PROFILE"] == "0_20_8"


def test_h56_a_vendor_that_a_node_no_longer_has_is_not_offered() -> None:
    flow.cluster(node())
    assert flow.used_mib(CARD) == 0
    flow.observe_nodes(kube_objects.node(agent=""))
    pod = kube_objects.pod("late", container(units=4))
    flow.admit(pod)
    assert flow.filter_(pod).node == ""
    assert {one.device.vendor for one in live_view.live().refresh().states["n1"].devices} == {"NVIDIA"}


def test_a_card_of_another_vendor_is_held_and_given_back() -> None:
    flow.cluster(node())
    pod = kube_objects.pod("p1", container(units=8))
    flow.run(pod)
    assert (flow.state(pod), flow.used_mib(CARD)) == ("running", 2048)
    observe.pods_gone(["uid-p1"])
    assert (flow.charged_mib(), flow.used_mib(CARD)) == (0, 0)
    flow.view_is_true()


def test_why_a_pod_of_another_vendor_waits_is_told_with_numbers() -> None:
    flow.cluster(node())
    flow.run(kube_objects.pod("first", container(units=80)))
    waits = kube_objects.pod("second", container(units=4))
    flow.admit(waits)
    flow.filter_(waits)
    view = live_view.live().refresh()
    row = view.pod("uid-second")
    assert row is not None
    found = what_if.explain_pod(view, row)
    assert found.verdict is explain.Verdict.NO_FIT_NOW
    assert found.nodes[0].text == "1/1 CardInsufficientMemory"


def test_facts_that_a_plugin_registers_are_kept_with_the_device() -> None:
    facts = {"AIC": "7", "DeviceStrategy": "die"}
    die = {"id": "d0", "count": 1, "devmem": 1000, "type": "Vastai", "health": True, "custominfo": facts}
    flow.cluster(kube_objects.node(annotations={"hami.io/node-va-register": json.dumps([die])}))
    flow.view_is_true()
    (device,) = (one.device for one in live_view.live().refresh().states["n1"].devices if one.device.vendor == "Vastai")
    assert (device.fact("AIC"), device.fact("DeviceStrategy"), device.core_percent) == ("7", "die", 100)


CLASS = "metax-tech.com/sgpu-app-class"


def metax_node(name: str = "n1", cards: int = 1) -> dict[str, Any]:
    """A node with so many Metax cards of 64 GiB that can be shared."""
    card = {"totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536, "healthy": True, "qosPolicy": "best-effort"}
    registered = [{"uuid": f"{name}-mx-{i}", **card} for i in range(cards)]
    return kube_objects.node(name, annotations={"metax-tech.com/node-gpu-devices": json.dumps(registered)})


def metax_pod(name: str, app_class: str = "") -> dict[str, Any]:
    """A pod that asks for a part of one Metax card, with this application class."""
    limits = {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": "1", "metax-tech.com/vcore": "10"}
    pod = kube_objects.pod(name, {"name": "main", "image": "busybox", "resources": {"limits": limits}})
    pod["metadata"]["annotations"] |= {CLASS: app_class} if app_class else {}
    return pod


def test_the_class_of_the_pods_on_a_card_is_in_the_ledger() -> None:
    flow.cluster(metax_node())
    flow.run(metax_pod("trainer", "offline"))
    flow.view_is_true()
    (held,) = (one.held for one in live_view.live().refresh().states["n1"].devices if one.device.uuid == "n1-mx-0")
    assert held.notes == ((CLASS, "offline"),)
    server = metax_pod("server", "online")
    flow.run(server)
    assert (flow.charged_mib(), flow.used_mib("n1-mx-0")) == (2048, 2048)
    flow.view_is_true()
    for late in (metax_pod("more", "offline"), metax_pod("plain")):
        flow.admit(late)
        assert flow.filter_(late).reason == "CardAppClassMismatch"
    observe.pods_gone(["uid-server", "uid-trainer"])
    assert flow.filter_(metax_pod("plain")).node == "n1"
    flow.view_is_true()


def test_an_online_pod_is_charged_no_cores() -> None:
    flow.cluster(metax_node())
    flow.limit(core_percent=0)
    assert not flow.admit(metax_pod("plain")).granted
    flow.run(metax_pod("server", "online"))
    assert [charge.core_percent for charge in live_view.live().refresh().usage["nlp"].values()] == [0]
