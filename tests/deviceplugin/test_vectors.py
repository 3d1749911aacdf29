"""Worked examples of HAMi v2.10.0's device plugin, each as it goes through this agent; where one shows a fault, the
test says so and what is done in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from deviceplugin import grants, refusals, register, replicas, xids
from tests.deviceplugin.builders import GPU_A, GPU_B, NODE, card, pod, row
from tests.deviceplugin.test_annotation_handover import LOCK, ROWS, Bench, lock

UUID = "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
TWO = row((GPU_A, 1000, 30), (GPU_B, 2000, 50))


def test_a_card_is_ten_ids_that_lead_back_to_it() -> None:
    ids = [share.id for share in register.shares([card(UUID)], register.Scaling(slots=10), numa=False)]
    assert ids == [f"{UUID}-{number}" for number in range(10)]
    assert {replicas.physical(one) for one in ids} == {UUID}


@pytest.mark.parametrize(
    "id_, uuid", [(f"{UUID}-3", UUID), ("GPU-x::2", "GPU-x"), (UUID, UUID), (f"{UUID}-x3", f"{UUID}-x3")]
)
def test_the_card_of_an_id(id_: str, uuid: str) -> None:
    assert replicas.physical(id_) == uuid


def test_scaled_memory_and_cores() -> None:
    (device,) = register.registered([card(memory_mib=16384)], register.Scaling(memory=1.8, cores=1.5))
    assert (device.memory_mib, device.core_percent) == (29491, 150)


def test_an_init_container_without_devices_and_an_app_with_two(tmp_path: Path) -> None:
    """HAMi's text grows by one `;` at each rewriting and reads `;;;`; here it keeps its length."""
    made = Bench(tmp_path, pod(rows=";" + TWO, inits=["fetch"], asks=2), lock())
    (grant,) = made.granted(2)
    limits = {key: value for key, value in grant.envs.items() if "LIMIT" in key}
    assert limits == {
        "CUDA_DEVICE_MEMORY_LIMIT_0": "1000m",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "2000m",
        "CUDA_DEVICE_SM_LIMIT": "30",
        # HAMi holds both cards to the first one's cores; the library takes one limit for each.
        "CUDA_DEVICE_SM_LIMIT_0": "30",
        "CUDA_DEVICE_SM_LIMIT_1": "50",
    }
    assert made.notes()[ROWS] == ";;"
    assert (made.notes()["hami.io/bind-phase"], made.locked) == ("success", False)


def test_one_id_for_two_reserved_devices_fails_the_pod_and_frees_the_node(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(rows=";" + TWO, inits=["fetch"], asks=2), lock())
    assert "device number not matched" in made.refused(1).message
    assert made.notes()["hami.io/bind-phase"] == "failed"
    assert LOCK not in made.cluster.node(NODE)["metadata"]["annotations"]


def test_two_containers_take_two_calls_and_the_lock_stays_between_them(tmp_path: Path) -> None:
    """HAMi's text after the first call is `;B:;;`."""
    rows = row((GPU_A, 1, 1)) + row((GPU_B, 1, 1))
    made = Bench(tmp_path, pod(rows=rows, containers=["one", "two"]), lock())
    made.card()
    assert made.notes()[ROWS] == ";" + row((GPU_B, 1, 1))
    assert (made.notes()["hami.io/bind-phase"], made.locked) == ("allocating", True)
    made.card()
    assert (made.notes()["hami.io/bind-phase"], made.locked) == ("success", False)


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109])
def test_xids_that_do_no_harm(xid: int) -> None:
    assert not xids.policy("", "").harms(xid)


@pytest.mark.parametrize(
    "disable, enable, xid, harms",
    [("", "", 79, True), ("79", "", 79, False), ("", "31", 31, True), ("all", "", 79, False)],
)
def test_xids_that_were_asked_for(disable: str, enable: str, xid: int, harms: bool) -> None:
    assert xids.policy(disable, enable).harms(xid) is harms


@pytest.mark.parametrize("value, preloaded", [("true", False), ("false", True), ("abc", True)])
def test_control_can_be_disabled_by_what_go_reads_as_true(value: str, preloaded: bool) -> None:
    target = grants.Target("uid", "main", {"CUDA_DISABLE_CONTROL": value})
    grant = grants.shared([grants.Reserved(GPU_A, 1, 1)], target, grants.Enforcement(), cache="c")
    assert (grants.PRELOAD in {mount.container_path for mount in grant.mounts}) is preloaded


def test_preferred_replicas() -> None:
    available = ["U1-0", "U2-0", "U2-1"]
    assert replicas.preferred(["U1", "U2"], available, ["U2-1"], 2, {"U1", "U2"}) == ("U2-1", "U1-0")


@pytest.mark.parametrize(
    "name, type_", [("Tesla P4", "NVIDIA-Tesla P4"), ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB")]
)
def test_the_type_says_nvidia_once(name: str, type_: str) -> None:
    assert register.model(name) == type_


def test_a_call_without_ids_gets_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    """HAMi panics."""
    made = Bench(tmp_path, pod(), lock())
    assert made.allocator.allocate([]) == ()
    assert isinstance(made.allocator.allocate([[]]), refusals.Refusal)
