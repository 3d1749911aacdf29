"""Law 8: what reconciliation has applied it does not want to apply again; people's columns are not its own; a list
that is older frees nothing. For any nodes and pods that an API server may show."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from django.db import transaction
from hypothesis import strategies as st

from accounting import ledger, live_view
from accounting.models import Clock, Device
from accounting.services import devices, native_quotas, nodes, observe, reconcile, seen
from accounting.services.node_seen import from_object as node_from
from hami_platform.domain.wire import node_register
from tests import builders
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]
Object = dict[str, Any]

NAMES = ("n1", "n2")
REGISTRATIONS = st.lists(
    st.builds(
        builders.device,
        st.sampled_from(["GPU-a", "GPU-b", "GPU-c"]),  # also the same one on two nodes
        memory_mib=st.sampled_from([15000, 24576]),
        healthy=st.booleans(),
    ),
    max_size=3,
    unique_by=lambda one: one.uuid,
)
STATES = st.sampled_from([kube_objects.running(), kube_objects.terminated(0), kube_objects.terminated(1)])
ALLOCATIONS = (
    "GPU-a,NVIDIA,1000,10:;",
    "GPU-a,NVIDIA,1000,10:;GPU-b,NVIDIA,20480,0:;",
    "GPU-gone,NVIDIA,5,5:;",
    "x,y:;",
)


@st.composite
def node_lists(draw: st.DrawFn) -> list[Object]:
    """The node list of an API server."""
    found = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        agent, count = draw(st.sampled_from(["", "1.0"])), draw(st.sampled_from([0, 10]))
        node = kube_objects.node(name, agent=agent, allocatable=count)
        notes = node["metadata"]["annotations"]
        registered = draw(REGISTRATIONS)
        notes["hami.io/node-nvidia-register"] = draw(
            st.sampled_from([node_register.encode(registered), "", "not readable"])
        )
        found.append(node)
    return found


@st.composite
def pod_lists(draw: st.DrawFn) -> list[Object]:
    """The pod list of an API server."""
    found = []
    for name in draw(st.lists(st.sampled_from(["p", "q", "r"]), unique=True)):
        inits = [kube_objects.container("load", mem=9000)] if draw(st.booleans()) else []
        statuses = {who: draw(STATES) for who in ("load", "main") if draw(st.booleans())}
        pod = kube_objects.pod(
            name,
            kube_objects.container(mem=draw(st.sampled_from([1000, 20480]))),
            inits=inits,
            node=draw(st.sampled_from(["", *NAMES, "n-unknown"])),
            phase=draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])),
            statuses=statuses,
            deleting=draw(st.booleans()),
            gated=draw(st.booleans()),
        )
        if draw(st.booleans()):
            pod["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = draw(st.sampled_from(ALLOCATIONS))
        found.append(pod)
    return found


@contextlib.contextmanager
def a_database_of_its_own() -> Iterator[None]:
    """What one example writes is not there for the next one."""
    with transaction.atomic():
        ledger.forget_cluster()
        live_view.forget()
        yield
        transaction.set_rollback(True)
    ledger.forget_cluster()
    live_view.forget()


def apply(nodes_: list[Object], pods: list[Object]) -> int:
    """What the ticks do with these lists; how much changed."""
    changed = nodes.nodes_observe([node_from(one, flow.CONFIG) for one in nodes_], config=flow.CONFIG)
    present = {one["metadata"]["name"] for one in nodes_}
    changed += nodes.nodes_gone([name for name in NAMES if name not in present])
    changed += native_quotas.native_quotas_observe([], config=flow.CONFIG, complete=True)
    return changed + observe.pods_observe([seen.from_object(one, flow.CONFIG) for one in pods], config=flow.CONFIG)


def revision() -> int:
    return int(Clock.objects.get().revision)


@hypothesis.given(st.lists(st.tuples(node_lists(), pod_lists()), min_size=1, max_size=3))
@hypothesis.settings(max_examples=60, suppress_health_check=list(hypothesis.HealthCheck))
def test_applied_twice_the_second_time_changes_nothing(lists: list[tuple[list[Object], list[Object]]]) -> None:
    with a_database_of_its_own():
        reconcile.compared()
        for nodes_, pods in lists:
            apply(nodes_, pods)
            before = revision()
            assert apply(nodes_, pods) == 0
            assert revision() == before
        flow.view_is_true()


@hypothesis.given(node_lists(), node_lists())
@hypothesis.settings(max_examples=40, suppress_health_check=list(hypothesis.HealthCheck))
def test_what_people_set_is_never_changed(first: list[Object], then: list[Object]) -> None:
    with a_database_of_its_own():
        reconcile.compared()
        apply(first, [])
        for one in Device.objects.select_related("node"):
            devices.device_edit(
                node=one.node.name, vendor=one.vendor, uuid=one.uuid, cordoned=True,
                reserved_mib=min(16000, one.memory_mib), note="broken fan", reason="t",
            )  # fmt: skip
        edited = list(Device.objects.values_list("pk", "cordoned", "reserved_mib", "note"))
        apply(then, [])
        kept = Device.objects.filter(pk__in=[pk for pk, *_ in edited])
        assert list(kept.values_list("pk", "cordoned", "reserved_mib", "note")) == edited


@hypothesis.given(node_lists(), pod_lists(), st.data())
@hypothesis.settings(max_examples=40, suppress_health_check=list(hypothesis.HealthCheck))
def test_an_older_list_frees_nothing(nodes_: list[Object], pods: list[Object], data: st.DataObject) -> None:
    """Older objects, and a list that lacks some: what is held stays held."""
    with a_database_of_its_own():
        reconcile.compared()
        apply(nodes_, pods)
        before = live_view.live().refresh()
        older = data.draw(st.lists(st.sampled_from(pods), unique_by=id)) if pods else []
        for pod in older:
            pod["metadata"]["resourceVersion"] = "1"
            pod["status"] = {"phase": "Succeeded"}
        observe.pods_observe([seen.from_object(one, flow.CONFIG) for one in older], config=flow.CONFIG)
        assert live_view.live().refresh().pods == before.pods


def test_a_device_that_registers_less_than_is_kept_back_offers_nothing() -> None:
    """Less memory scaling after a restart of the plugin: no tick may fail over what a person once set."""
    flow.cluster(kube_objects.node("n1", builders.device("GPU-a", memory_mib=24576)))
    devices.device_reserve(node="n1", vendor="NVIDIA", uuid="GPU-a", reserved_mib=20000, reason="t")
    flow.observe_nodes(kube_objects.node("n1", builders.device("GPU-a", memory_mib=12000)))
    assert Device.objects.get().reserved_mib == 20000
    pod = kube_objects.pod(mem=1)
    flow.admit(pod)
    assert flow.filter_(pod).reason == "CardInsufficientMemory"
    flow.view_is_true()
