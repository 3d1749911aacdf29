"""The cluster's figures: names and labels as HAMi v2.10.0 has them, values equal to sums of rows."""

from __future__ import annotations

import contextlib
import gzip
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from prometheus_client import parser

from accounting import ledger, live_view
from accounting.models import Device, Hold, NativeQuota, Node, NodeLock, Pod, Quota, Share
from accounting.selectors import access, quota_bars
from accounting.services import findings, flights, lock_repair, node_seen, office, pod_rows
from hami_platform import env, metrics
from hami_platform.domain import devices
from hami_platform.domain.wire import mig_allocations
from tests.accounting import rows

pytestmark = pytest.mark.ledger

Samples = dict[frozenset[tuple[str, str]], float]
MIB = 1 << 20
CARD = {"node", "device_uuid", "device_index", "device_type", "zone"}
LABELS = {
    "hami_gpu_memory_limit_bytes": CARD,
    "hami_gpu_core_limit_ratio": CARD,
    "hami_gpu_shared_count": CARD,
    "hami_gpu_core_allocated_ratio": CARD,
    "hami_node_gpu_memory_allocated_ratio": CARD,
    "hami_gpu_memory_allocated_bytes": CARD | {"device_cores"},
    "hami_node_gpu_overview": CARD | {"device_cores", "device_memory_limit"},
    "hami_node_gpu_mig_instance_info": {
        "node", "device_uuid", "device_index", "mig_uuid", "profile", "gpu_instance_id", "compute_instance_id",
        "placement_start", "placement_size", "zone",
    },
    "hami_vgpu_memory_allocated_bytes": {"namespace", "node", "pod", "container_index", "device_uuid", "zone"},
    "hami_vgpu_core_allocated_ratio": {"namespace", "node", "pod", "container_index", "device_uuid", "zone"},
    "hami_resource_quota_used": {"namespace", "quota_name", "limit", "zone"},
    "hami_resource_quota_limit": {"namespace", "quota_name", "zone"},
    "hami_build_info": {"version", "revision", "build_date", "go_version", "compiler", "platform"},
}  # fmt: skip
OLD_CARD = {"nodeid", "deviceuuid", "deviceidx", "devicetype", "zone"}
OLD_POD = {"podnamespace", "nodename", "podname", "containeridx", "deviceuuid", "zone"}
OLD_LABELS = {
    "GPUDeviceMemoryLimit": OLD_CARD,
    "GPUDeviceCoreLimit": OLD_CARD,
    "GPUDeviceSharedNum": OLD_CARD,
    "GPUDeviceCoreAllocated": OLD_CARD,
    "GPUDeviceMemoryAllocated": OLD_CARD | {"devicecores"},
    "nodeGPUOverview": OLD_CARD | {"devicecores", "devicememorylimit"},
    "nodeGPUMemoryPercentage": OLD_CARD - {"devicetype"},
    "nodeGPUMigInstance": {"nodeid", "deviceuuid", "deviceidx", "migname", "zone"},
    "QuotaUsed": {"quotanamespace", "quotaName", "limit", "zone"},
    "vGPUMemoryAllocated": OLD_POD,
    "vGPUCoreAllocated": OLD_POD,
}
REALISED = mig_allocations.Allocation(
    0, 0, "GPU-mig-0", "1g.5gb", devices.MigPlacement(2, 1), mig_allocations.Runtime("MIG-a", 9, 0)
)


def shown() -> dict[str, Samples]:
    """Every sample of a scrape. A series that is there twice is refused, as Prometheus does."""
    found: dict[str, Samples] = defaultdict(dict)
    for family in parser.text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            key = frozenset(sample.labels.items())
            assert key not in found[sample.name], sample
            found[sample.name][key] = sample.value
    return found


def one(samples: Samples, **labels: str) -> float:
    """The value of the one sample that has these labels."""
    found = [value for key, value in samples.items() if frozenset(labels.items()) <= key]
    assert len(found) == 1, (labels, samples)
    return found[0]


def several_vendors() -> None:
    """Cards of four vendors, and pods of every kind: shared, exclusive, MIG, with inits, deleted, ended, only claimed,
    waiting; a hold; a ResourceQuota and a quota."""
    rows.node("n1", 2)
    rows.node("mig", 1, mode="mig", mig_profiles=rows.mig_profiles(), memory_mib=40960)
    rows.node("amd", 1, vendor="AMD", model="AMD MI300X", core_percent=304, memory_mib=196608)
    rows.node("mlu", 2, vendor="MLU", model="MLU370", memory_mib=24576)
    rows.node('odd"\n', 1, model='back\\slash "quote"')
    given = rows.Given
    rows.pod("shared", shares=[given(memory_mib=3000, core_percent=30), given("GPU-n1-1", 2000, 10)])
    rows.pod("exclusive", namespace="cv", shares=[given("GPU-mlu-0", 24576, 100, vendor="MLU")], node="mlu")
    rows.pod("inits", state="reserved", shares=[
        given(memory_mib=8000, core_percent=50, kind="init", container="load"),
        given(memory_mib=1000, core_percent=5, container="a"), given(memory_mib=2000, core_percent=5, container="b"),
    ])  # fmt: skip
    rows.pod("leaving", state="releasing", shares=[given("GPU-n1-1", 512, 1)])
    rows.pod("over", state="ended", shares=[given("GPU-n1-1", 9999, 99)])
    rows.pod("asked", state="claimed", shares=[], claim_charges=[rows.charge(4096, 1, 20)])
    rows.pod("waits", state="waiting", shares=[])
    rows.pod("units", shares=[given("GPU-amd-0", 4096, 100, vendor="AMD")], node="amd")
    small = devices.MigUse("1g.5gb", devices.MigPlacement(2, 1))
    wire = {"hami.io/vgpu-mig-allocations": mig_allocations.encode([REALISED])}
    rows.pod("instance", shares=[given("GPU-mig-0", 4864, 14, mig=small)], node="mig", wire=wire)
    half = devices.MigUse("3g.20gb", devices.MigPlacement(4, 4))
    rows.pod("planned", state="reserved", shares=[given("GPU-mig-0", 19968, 42, mig=half)], node="mig")
    _limits()


def _limits() -> None:
    with ledger.transaction(cause="test") as entry:
        cluster = entry.clock.cluster_id
        card = Device.objects.get(uuid="GPU-n1-0")
        hold = Hold(cluster_id=cluster, device=card, memory_mib=100, core_percent=3, slots=1, reason="driver")
        quota = Quota(cluster_id=cluster, namespace=rows.namespace_row("nlp"), memory_mib=50000, reason="test")
        saved: tuple[tuple[Any, str], ...] = ((hold, "hold"), (quota, "quota"))
        for row, kind in saved:
            row._change_reason = "test"
            row.save()
            entry.record(kind, row.pk)
        for name, key, vendor, resource, limit in (
            ("a", "limits.nvidia.com/gpumem", "NVIDIA", "memory_mib", 30000),
            ("b", "limits.nvidia.com/gpumem", "NVIDIA", "memory_mib", 20000),
            ("a", "limits.nvidia.com/gpucores", "NVIDIA", "core_percent", 0),
        ):
            native = NativeQuota.objects.create(
                cluster_id=cluster, namespace="nlp", object_name=name, resource_key=key, vendor=vendor,
                resource=resource, limit=limit,
            )  # fmt: skip
            entry.record("native", native.pk)


def held_rows(key: Callable[[Share], Any]) -> dict[Any, list[int]]:
    """Sums of share rows, worked out anew: [shares, MiB, cores] of pods on nodes, of the greater phase where a pod
    has init containers that are not over."""
    phases: dict[Any, list[list[int]]] = defaultdict(lambda: [[0, 0, 0], [0, 0, 0]])
    for share in Share.objects.exclude(pod__state__in=("ended", "claimed", "waiting")).select_related("pod"):
        amounts = phases[share.pod_id, key(share)][share.kind == "init"]
        for at, amount in enumerate((1, share.memory_mib, share.core_percent)):
            amounts[at] += amount
    found: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
    for (_, of), (apps, inits) in phases.items():
        found[of] = [before + max(pair) for before, pair in zip(found[of], zip(apps, inits, strict=True), strict=True)]
    return found


@pytest.fixture
def filled(db: None) -> None:
    several_vendors()


def test_names_and_labels_are_hamis(filled: None) -> None:
    found = shown()
    for name, keys in LABELS.items():
        assert found[name], name
        assert all({key for key, _ in labels} == keys for labels in found[name]), name
        assert name == "hami_build_info" or all(("zone", "vGPU") in labels for labels in found[name])
    assert not OLD_LABELS.keys() & found.keys()


def test_older_names_are_shown_where_asked_for_and_say_the_same(filled: None) -> None:
    with env.override(legacy_metrics=True):
        found = shown()
    for name, keys in OLD_LABELS.items():
        assert found[name], name
        assert all({key for key, _ in labels} == keys for labels in found[name]), name
    for new, old in (
        ("hami_gpu_memory_allocated_bytes", "GPUDeviceMemoryAllocated"),
        ("hami_node_gpu_memory_allocated_ratio", "nodeGPUMemoryPercentage"),
        ("hami_vgpu_memory_allocated_bytes", "vGPUMemoryAllocated"),
        ("hami_resource_quota_used", "QuotaUsed"),
    ):
        assert sorted(found[new].values()) == sorted(found[old].values())
    assert one(found["GPUDeviceCoreAllocated"], deviceuuid="GPU-amd-0") == 100  # units, as before there were ratios
    assert one(found["nodeGPUMigInstance"], migname="1g.5gb-9") == 1


def test_a_devices_figures_are_the_sums_of_its_rows(filled: None) -> None:
    found, held = shown(), held_rows(lambda share: share.uuid)
    for hold in Hold.objects.filter(in_force=True):
        amounts = (hold.slots, hold.memory_mib, hold.core_percent)
        held[hold.device.uuid] = [a + b for a, b in zip(held[hold.device.uuid], amounts, strict=True)]
    listed = list(Device.objects.select_related("node"))
    assert len(found["hami_gpu_memory_limit_bytes"]) == len(listed) == 7
    for device in listed:
        slots, memory_mib, cores = held[device.uuid]
        units = device.vendor == "AMD"
        card = {"node": device.node.name, "device_uuid": device.uuid}
        card |= {"device_index": str(device.index), "device_type": device.model}
        assert one(found["hami_gpu_memory_limit_bytes"], **card) == device.memory_mib * MIB
        assert one(found["hami_gpu_core_limit_ratio"], **card) == 100
        assert one(found["hami_gpu_shared_count"], **card) == slots
        assert one(found["hami_gpu_core_allocated_ratio"], **card) == (-(-cores * 100 // 304) if units else cores)
        assert one(found["hami_node_gpu_memory_allocated_ratio"], **card) == memory_mib / device.memory_mib
        card["device_cores"] = str(device.core_percent)
        assert one(found["hami_gpu_memory_allocated_bytes"], **card) == memory_mib * MIB
        card["device_memory_limit"] = str(device.memory_mib)
        assert one(found["hami_node_gpu_overview"], **card) == memory_mib * MIB


def test_a_pods_figures_are_the_sums_of_its_rows(filled: None) -> None:
    found = shown()
    held = held_rows(lambda share: (share.pod.namespace, share.pod.node, share.pod.name, share.uuid))
    assert len(found["hami_vgpu_memory_allocated_bytes"]) == len(held) == 8
    for (namespace, node, pod, uuid), (_, memory_mib, cores) in held.items():
        of = {"namespace": namespace, "node": node, "pod": pod, "device_uuid": uuid, "container_index": "0"}
        assert one(found["hami_vgpu_memory_allocated_bytes"], **of) == memory_mib * MIB
        assert one(found["hami_vgpu_core_allocated_ratio"], **of) == (33 if pod == "units" else cores)


def test_a_namespaces_figures_are_what_counts_against_its_resourcequotas(filled: None) -> None:
    found = shown()
    of_vendor = held_rows(lambda share: (share.pod.namespace, share.vendor))
    claimed = Pod.objects.get(name="asked").claim_charges[0]
    memory_mib = sum(
        held[1] for (pod, _), held in held_rows(lambda share: (share.pod.name, share.uuid)).items()
        if Pod.objects.get(name=pod).namespace == "nlp" and pod not in ("units",)
    )  # fmt: skip
    used, limit = found["hami_resource_quota_used"], found["hami_resource_quota_limit"]
    name = {"namespace": "nlp", "quota_name": "nvidia.com/gpumem"}
    assert one(used, **name, limit="20000") == memory_mib + claimed[2]  # the least of two limits
    assert one(limit, **name) == 20000
    assert one(limit, namespace="nlp", quota_name="nvidia.com/gpucores") == 0
    mlu = {"namespace": "cv", "quota_name": "cambricon.com/mlu.smlu.vmemory"}
    assert one(used, **mlu, limit="0") == of_vendor["cv", "MLU"][1] / 256  # units of the resource
    assert not any(frozenset(mlu.items()) <= labels for labels in limit)  # used, and not limited


def test_our_quotas_are_shown_as_on_their_page(filled: None) -> None:
    found = shown()
    bars = [bar for bar in quota_bars.all_bars(live_view.live().refresh(), access.ALL) if not bar.native]
    assert bars
    for bar in bars:
        of = {"quota": bar.rule, "scope": bar.scope, "scope_kind": bar.scope_kind, "resource": bar.resource}
        assert one(found["hami_platform_quota_limit"], **of) == bar.limit
        assert one(found["hami_platform_quota_used"], **of) == bar.held > 0


def test_an_instance_has_its_ids_once_it_is_made(filled: None) -> None:
    found = shown()["hami_node_gpu_mig_instance_info"]
    made = {"mig_uuid": "MIG-a", "gpu_instance_id": "9", "compute_instance_id": "0"}
    assert one(found, profile="1g.5gb", placement_start="2", placement_size="1", device_index="0", **made) == 1
    assert one(found, profile="3g.20gb", mig_uuid="", gpu_instance_id="", compute_instance_id="") == 1
    assert len(found) == 2


def test_h57_a_retired_node_has_no_series(filled: None) -> None:
    with ledger.transaction(cause="test") as entry:
        Node.objects.filter(name="n1").update(retired=True)
        entry.record("node", "n1")
    assert not any(("node", "n1") in labels for labels in shown()["hami_gpu_memory_limit_bytes"])


def test_h63_a_pod_that_ends_has_no_series_at_the_next_scrape(db: None) -> None:
    rows.node("n1", 1)
    pod = rows.pod("p", shares=[rows.Given(memory_mib=6144, core_percent=25)])
    labels = {"namespace": "nlp", "node": "n1", "pod": "p", "pod_uid": "uid-p", "device_uuid": "GPU-n1-0"}
    assert one(shown()["hami_platform_pod_device_share_ratio"], **labels) == 25
    with ledger.transaction(cause="test") as entry:
        pod_rows.pod_end(entry, pod)
    assert not shown()["hami_platform_pod_device_share_ratio"]
    assert not shown()["hami_vgpu_memory_allocated_bytes"]


def test_two_pods_of_one_name_are_one_series(db: None) -> None:
    rows.node("n1")
    rows.pod("web-0", state="releasing", uid="old")
    rows.pod("web-0", uid="new")
    assert one(shown()["hami_vgpu_memory_allocated_bytes"], pod="web-0") == 2 * 4096 * MIB


def test_a_card_that_two_vendors_register_is_one_series(db: None) -> None:
    node = rows.node("n1", 1)
    with ledger.transaction(cause="test") as entry:
        twin = Device.objects.get(node=node)
        twin.pk, twin.vendor, twin._change_reason = None, "Twin", "test"  # type: ignore[attr-defined]
        twin.save()
        entry.record("device", "n1/twin")
    assert len(shown()["hami_gpu_memory_limit_bytes"]) == 1


def test_every_pod_is_counted_in_its_state(filled: None) -> None:
    found = shown()["hami_platform_pods"]
    assert one(found, namespace="nlp", state="releasing") == 1
    assert one(found, namespace="nlp", state="running") == 3
    assert not any(("state", "ended") in labels for labels in found)


def test_h51_locks_are_shown_with_their_age_and_twice_the_timeout_is_an_alarm(db: None) -> None:
    rows.node("n1")
    with ledger.transaction(cause="test") as entry:
        NodeLock.objects.create(cluster_id=entry.clock.cluster_id, node="n1", pod_uid="u", first_seen_at=entry.at)
        entry.record("lock", "n1")
    found = shown()
    assert one(found["hami_platform_node_locks"], mode="row") == 1
    assert one(found["hami_platform_node_locks_overdue"]) == 0
    with env.override(node_lock_timeout_s=-1.0):
        assert one(shown()["hami_platform_node_locks_overdue"]) == 1


@pytest.mark.django_db(transaction=True)
def test_how_long_a_node_was_locked_is_measured_when_its_lock_falls() -> None:
    def measured(mode: str) -> tuple[float, float]:
        found = shown()
        of = [one for key, one in found["hami_platform_node_lock_hold_seconds_count"].items() if ("mode", mode) in key]
        seconds = [
            one for key, one in found["hami_platform_node_lock_hold_seconds_sum"].items() if ("mode", mode) in key
        ]
        return sum(of), sum(seconds)

    rows.node("n1")
    pod = rows.pod("p1", state="bound")
    before = {mode: measured(mode) for mode in ("row", "annotation")}
    with ledger.transaction(cause="test") as entry:
        since = entry.at - timedelta(seconds=40)
        for node, mode in (("n1", "row"), ("n2", "annotation")):
            NodeLock.objects.create(
                cluster_id=entry.clock.cluster_id, node=node, pod_uid=pod.uid, mode=mode, value="v", first_seen_at=since
            )
            entry.record("lock", node)
    with contextlib.suppress(RuntimeError), ledger.transaction(cause="test") as entry:
        pod_rows.lock_drop(entry, pod)
        raise RuntimeError("nothing of this is so")
    with ledger.transaction(cause="test") as entry:
        pod_rows.lock_drop(entry, pod)
    lock_repair.locks_observe([node_seen.NodeSeen("n2")])
    for mode, (count, seconds) in before.items():
        now = measured(mode)
        assert now[0] == count + 1
        assert 40 <= now[1] - seconds < 400


def test_history_jobs_and_findings_are_shown(db: None) -> None:
    rows.node("n1")
    with flights.single_flight("pods", holder="h", ttl_s=9):
        pass
    with ledger.transaction(cause="test") as entry:
        findings.finding_raise(entry, kind="leaked", subject="a", message="m", evidence={})
        findings.finding_raise(entry, kind="leaked", subject="b", message="m", evidence={}, repair="done")
    found, clock = shown(), live_view.live().refresh().clock
    assert one(found["hami_platform_ledger_revision"]) == clock.revision
    assert one(found["hami_platform_ledger_incarnation_info"], incarnation=clock.incarnation) == 1
    assert one(found["hami_platform_ledger_compared"]) == 0
    assert one(found["hami_platform_lease_epoch"], job="pods") == 1
    assert one(found["hami_platform_lease_held"], job="pods") == 0
    assert one(found["hami_platform_job_success_age_seconds"], job="pods") >= 0
    assert one(found["hami_platform_findings_open"], kind="leaked") == 1
    assert one(found["hami_platform_findings_repaired"], kind="leaked") == 1


def test_without_a_ledger_the_clusters_figures_are_absent_and_the_reason_is_there(filled: None) -> None:
    ledger.breaker._why = "database: it is gone"
    try:
        found = shown()
    finally:
        ledger.breaker._why = ""
    assert one(found["hami_platform_breaker_open"]) == 1
    assert "hami_gpu_memory_limit_bytes" not in found
    assert one(shown()["hami_platform_breaker_open"]) == 0


def test_the_cluster_is_shown_by_all_by_the_leader_or_by_none(filled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = office.Office()
    monkeypatch.setattr(office, "OFFICE", mine)
    with env.override(cluster_metrics="leader"):
        assert "hami_gpu_memory_limit_bytes" not in shown()
        mine.held(7, asked_s=mine.now_s(), ttl_s=60)
        found = shown()
        assert found["hami_gpu_memory_limit_bytes"]
        assert (one(found["hami_platform_leader"]), one(found["hami_platform_leader_epoch"])) == (1, 7)
    with env.override(cluster_metrics="never"):
        assert "hami_gpu_memory_limit_bytes" not in shown()


def test_a_reader_may_have_it_packed(filled: None) -> None:
    answer = Client().get("/metrics", headers={"accept-encoding": "gzip"})
    assert answer["Content-Encoding"] == "gzip"
    assert b"hami_gpu_memory_limit_bytes" in gzip.decompress(answer.content)


@pytest.mark.django_db(transaction=True)
def test_a_scrape_leaves_no_transaction_and_reads_a_handful_of_rows(django_assert_max_num_queries: Any) -> None:
    several_vendors()
    shown()
    with django_assert_max_num_queries(8):
        shown()
    assert not transaction.get_connection().in_atomic_block
