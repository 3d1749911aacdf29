"""What the declarations say that no recorded vector does: configuration, capacity, keys, constraints per vendor."""

from __future__ import annotations

from typing import Any

import pytest

from hami_platform.domain import errors, requests
from hami_platform.domain.vendors import base, parse, registry
from hami_platform.domain.wire import pod_request

CONFIG = registry.default_config()


def pod(notes: dict[str, str] | None = None, **limits: dict[str, str]) -> dict[str, Any]:
    """One container for each keyword, with these limits."""
    containers = [{"name": name, "resources": {"limits": amounts}} for name, amounts in limits.items()]
    return {"metadata": {"annotations": notes or {}}, "spec": {"containers": containers}}


def test_every_vendor_says_where_its_devices_come_from_and_where_they_are_written() -> None:
    for vendor in CONFIG.vendors:
        assert vendor.resources.count
        assert vendor.allocated_key
        assert vendor.decode is not None or vendor.register_key
        assert set(vendor.owned_keys) <= set(CONFIG.owned_keys.keys)


def test_no_two_vendors_share_a_key() -> None:
    keys = [key for vendor in CONFIG.vendors for key in (vendor.allocated_key, vendor.to_allocate_key) if key]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    "raw, words",
    [
        ({"amd": []}, "amd: a mapping"),
        ({"iluvatars": {}}, "iluvatars: a list"),
        ({"iluvatars": [{"chipName": "x"}]}, r"iluvatars\[0\].commonWord"),
        ({"iluvatars": [{"commonWord": "a"}, {"commonWord": "a"}]}, "used by a and by a"),
        ({"hygon": {"memoryFactor": -1}}, "hygon.memoryFactor"),
    ],
)
def test_a_section_that_cannot_be_used_is_named(raw: dict[str, Any], words: str) -> None:
    with pytest.raises(errors.ConfigError, match=words):
        registry.device_config(raw)


@pytest.mark.parametrize(
    "word, capacity, expected",
    [
        ("MLU", {}, []),
        ("MLU", {"cambricon.com/mlu.smlu.vcore": 1, "cambricon.com/mlu.smlu.vmemory": 1}, [25600]),
        ("MLU", {"cambricon.com/mlu.smlu.vcore": 200, "cambricon.com/mlu.smlu.vmemory": 640}, [81920, 81920]),
        ("MLU", {"cambricon.com/mlu.smlu.vcore": 100}, [0]),
        ("Mthreads", {}, []),
        ("Mthreads", {"mthreads.com/sgpu-core": 1, "mthreads.com/sgpu-memory": 1}, [8192]),
        ("Mthreads", {"mthreads.com/sgpu-core": 32, "mthreads.com/sgpu-memory": 192}, [49152, 49152]),
    ],
)
def test_cards_are_made_up_from_capacity(word: str, capacity: dict[str, int], expected: list[int]) -> None:
    found = CONFIG.vendor(word).registered(base.NodeSource("n", {}, {}, capacity))
    assert [one.memory_mib for one in found] == expected
    assert [one.index for one in found] == list(range(len(expected)))


def test_h24_lists_of_one_vendor_do_not_touch_another_vendors_devices() -> None:
    notes = {
        "nvidia.com/use-gpuuuid": "GPU-a",
        "hygon.com/nouse-gpuuuid": "DCU-b",
        "hami.io/gpu-scheduler-policy": "mutex",
    }
    asked = pod(notes, a={"nvidia.com/gpu": "1"}, b={"hygon.com/dcunum": "1"})
    found = parse.pod_request(asked, CONFIG)
    assert found.constraints.of("NVIDIA").use_uuids == ("GPU-a",)
    assert found.constraints.of("NVIDIA").nouse_uuids is None
    assert found.constraints.of("DCU").use_uuids is None
    assert found.constraints.of("DCU").nouse_uuids == ("DCU-b",)
    assert found.constraints.of("DCU").device_policy == "mutex"
    assert found.constraints.names_uuids
    assert pod_request.decode(pod_request.encode(found)) == found


def test_a_request_stored_before_there_were_other_vendors_is_still_read() -> None:
    stored = {
        "containers": [{"name": "c", "kind": "app", "devices": [{"vendor": "NVIDIA", "count": 1, "memory_mib": 5}]}],
        "constraints": {"use_uuids": ["GPU-a"], "vgpu_mode": "mig"},
    }
    found = pod_request.decode(stored)
    assert found.constraints == requests.Constraints(use_uuids=("GPU-a",), vgpu_mode="mig")
    assert found.constraints.of("NVIDIA") is found.constraints


@pytest.mark.parametrize("percent", ["0", "101", "1500m", "-1"])
def test_a_percentage_of_amd_cores_is_from_1_to_100(percent: str) -> None:
    with pytest.raises(errors.RequestError, match=r"container a: amd.com/gpucores: .*must be an integer between"):
        parse.pod_request(pod(a={"amd.com/gpu": "1", "amd.com/gpucores": percent}), CONFIG)


def test_h05_a_negative_count_of_any_vendor_is_refused_by_name() -> None:
    for vendor in CONFIG.vendors:
        with pytest.raises(errors.RequestError, match=f"container a: {vendor.resources.count}"):
            parse.pod_request(pod(a={vendor.resources.count: "-1"}), CONFIG)


def test_ascend_chips_may_stand_in_a_list_as_in_older_configurations() -> None:
    chip = {
        "commonWord": "Ascend910A", "chipName": "910A", "resourceName": "huawei.com/Ascend910A",
        "resourceMemoryName": "huawei.com/Ascend910A-memory", "memoryAllocatable": 32768, "memoryCapacity": 32768,
        "templates": [{"name": "vir02", "memory": 2184, "aiCore": 2}],
    }  # fmt: skip
    old, new = (registry.device_config({"vnpus": section}) for section in ([chip], {"configs": [chip]}))
    assert [one.resources for one in old.vendors] == [one.resources for one in new.vendors]
    assert [one.word for one in old.vendors] == ["Ascend910A"]
