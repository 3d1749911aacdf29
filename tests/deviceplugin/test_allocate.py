"""Allocate in platform mode: found by what the record leaves, remembered on disk, never written to the API server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deviceplugin import by_checkpoint, checkpoint, grants, handover, inventory, loops, patience, refusals, replicas
from hami_platform.domain import devices
from hami_platform.kube import calls, errors
from tests.deviceplugin import bench
from tests.deviceplugin.builders import GPU_A, GPU_B, NODE, device_record, inventory_file, pod, row, running
from tests.deviceplugin.cluster import Cluster
from tests.deviceplugin.test_inventory import PROFILE

ONE = row((GPU_A, 3000, 30))
MIG_ROW = row((GPU_A, 4864, 15))


class Bench:
    """A node with two cards, its agent's parts, and a cluster with the given pods."""

    def __init__(self, folder: Path, *pods: dict[str, Any], records: Sequence[dict[str, Any]] = ()) -> None:
        self.folder = folder
        self.cluster = Cluster(*pods)
        self.done = 0
        records = records or (device_record(GPU_A), device_record(GPU_B))
        self.cards = inventory.FileInventory(inventory_file(folder, *records))
        self.restart()

    def restart(self, **options: Any) -> None:
        """The agent's memory is gone, its disk is not."""
        self.record = checkpoint.Checkpoint(self.folder / "agent.json")
        reader = patience.PatientReader(self.cluster, loops.Stop().event, (0.0, 0.0))
        place = handover.Place(NODE, "nvidia.com/gpu", reader, self.record, self.cards)
        self.allocator = bench.allocator(
            by_checkpoint.CheckpointHandover(place), self.cards, self.record, self.folder, done=self._count, **options
        )

    def _count(self) -> None:
        self.done += 1

    def granted(self, *counts: int) -> tuple[grants.Grant, ...]:
        answer = self.allocator.allocate(bench.ids(counts or (1,)))
        assert not isinstance(answer, refusals.Refusal), answer
        return answer

    def preferred(self, *available: str, size: int = 1) -> tuple[str, ...]:
        answer = self.allocator.preferred([replicas.Choice(available, (), size)])
        assert not isinstance(answer, refusals.Refusal), answer
        return answer[0]

    def refused(self, *counts: int) -> refusals.Refusal:
        answer = self.allocator.allocate(bench.ids(counts or (1,)))
        assert isinstance(answer, refusals.Refusal), answer
        return answer


def test_the_waiting_pod_gets_its_row_and_nothing_is_written_to_the_cluster(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod())
    (grant,) = made.granted()
    assert grant.envs["NVIDIA_VISIBLE_DEVICES"] == GPU_A
    assert grant.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
    assert made.cluster.writes == []
    assert made.done == 1


def test_containers_are_served_in_order_one_call_each_and_then_nobody_waits(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(rows=row((GPU_B, 2000, 20)) + ";" + ONE, inits=["fetch"], containers=["side", "main"]))
    assert [made.granted()[0].envs["NVIDIA_VISIBLE_DEVICES"] for _ in range(2)] == [GPU_B, GPU_A]
    assert made.record.served("uid-train") == {"fetch", "main"}
    assert made.refused().reason is refusals.Reason.NO_POD


def test_a_restart_between_two_containers_repeats_nothing(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(rows=ONE + row((GPU_B, 2000, 20)), containers=["one", "two"]))
    made.granted()
    made.restart()
    assert made.granted()[0].envs["NVIDIA_VISIBLE_DEVICES"] == GPU_B


def test_two_requests_in_one_call_are_two_containers(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(rows=ONE + row((GPU_B, 2000, 20)), containers=["one", "two"]))
    assert [grant.envs["NVIDIA_VISIBLE_DEVICES"] for grant in made.granted(1, 1)] == [GPU_A, GPU_B]
    assert made.record.served("uid-train") == {"one", "two"}


def test_a_slow_image_pull_does_not_hide_the_next_pod(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod("first"))
    made.granted()
    made.cluster.put(pod("second", row((GPU_B, 5000, 0))))
    assert made.granted()[0].envs["NVIDIA_VISIBLE_DEVICES"] == GPU_B


def test_a_lost_record_refuses_rather_than_serve_the_wrong_pod(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod("first"))
    made.granted()
    (tmp_path / "agent.json").unlink()
    made.restart()
    made.cluster.put(pod("second"))
    assert made.refused().reason is refusals.Reason.AMBIGUOUS


def test_a_mismatch_fails_that_pod_alone(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod("wrong", row((GPU_A, 1000, 0), (GPU_B, 1000, 0))))
    assert "device number not matched" in made.refused().message
    made.cluster.pod("wrong")["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
    made.cluster.put(pod("right"))
    made.granted()


def test_a_pod_of_another_scheduler_never_gets_what_was_reserved(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(), pod("stranger", rows=None))
    refusal = made.refused()
    assert refusal.reason is refusals.Reason.AMBIGUOUS
    assert "nlp/stranger" in refusal.message


def test_a_started_pod_is_not_asked_again(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(status=running()))
    assert made.refused().reason is refusals.Reason.NO_POD


def test_an_unknown_card_is_named(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(rows=row(("GPU-elsewhere", 1000, 0))))
    refusal = made.refused()
    assert refusal.reason is refusals.Reason.UNKNOWN_DEVICE
    assert "GPU-elsewhere" in refusal.message
    assert made.record.pods == {}


def test_a_short_failure_of_the_api_server_fails_no_pod(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod())
    made.cluster.fail = [errors.Unreachable("refused"), errors.Ambiguous("reset")]
    made.granted()


def test_a_long_failure_refuses_and_hands_out_nothing(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod())
    made.cluster.fail = [errors.Unreachable("refused")] * 3
    assert made.refused().reason is refusals.Reason.API
    assert made.record.pods == {}


def test_what_cannot_be_recorded_is_not_handed_out(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod())
    (tmp_path / "agent.new").mkdir()
    assert made.refused().reason is refusals.Reason.HOST
    (tmp_path / "agent.new").rmdir()
    made.granted()


def test_a_gone_pod_is_forgotten_at_the_next_call(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod("first"))
    made.granted()
    made.cluster.remove_pod("first")
    made.cluster.put(pod("second"))
    made.granted()
    assert set(made.record.pods) == {"uid-second"}


def test_a_namesake_with_another_uid_is_another_pod(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod("train"))
    made.granted()
    made.cluster.put(pod("train", metadata={"uid": "uid-again"}))
    made.granted()
    assert set(made.record.pods) == {"uid-again"}


def test_the_containers_directory_is_made_empty_and_writable_for_all(tmp_path: Path) -> None:
    own = tmp_path / "vgpu" / "containers" / "uid-train_main"
    own.mkdir(parents=True)
    (own / "old.cache").touch()
    Bench(tmp_path, pod()).granted()
    assert list(own.iterdir()) == []
    assert own.stat().st_mode & 0o777 == 0o777


def test_a_directory_that_cannot_be_made_refuses(tmp_path: Path) -> None:
    (tmp_path / "vgpu").write_text("in the way")
    assert Bench(tmp_path, pod()).refused().reason is refusals.Reason.HOST


def test_without_the_limiting_library_nothing_is_handed_out(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod())
    made.restart(check_library=True)
    assert "libvgpu.so is not on the host" in made.refused().message
    (tmp_path / "vgpu").mkdir(exist_ok=True)
    for name in ("libvgpu.so", "ld.so.preload"):
        (tmp_path / "vgpu" / name).touch()
    made.granted()


def test_made_up_cards_leave_the_hosts_shared_directory_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "vgpulock"
    monkeypatch.setattr(grants, "SHARED_LOCKS", str(shared))
    Bench(tmp_path, pod()).granted()
    assert not shared.exists()


def test_preferred_cards_are_the_reserved_ones_and_nothing_is_consumed(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(rows=row((GPU_B, 3000, 30))))
    assert made.preferred(f"{GPU_A}-0", f"{GPU_B}-3") == (f"{GPU_B}-3",)
    assert made.preferred(f"{GPU_A}-0") == ()
    made.granted()


def test_without_a_reservation_cards_that_go_well_together_are_preferred(tmp_path: Path) -> None:
    records = [device_record(one, numa=numa) for one, numa in ((GPU_A, 0), (GPU_B, 1), ("GPU-c", 1))]
    made = Bench(tmp_path, records=records)
    assert made.preferred(f"{GPU_A}-0", f"{GPU_B}-0", "GPU-c-0", size=2) == (f"{GPU_B}-0", "GPU-c-0")


def mig_pod(*reservations: dict[str, Any]) -> dict[str, Any]:
    one = {"containerIndex": 0, "deviceIndex": 0, "gpuUUID": GPU_A, "profile": "1g.5gb"}
    full = [{**one, "placement": {"start": 6, "size": 1}, **each} for each in reservations or ({},)]
    return pod(rows=MIG_ROW, annotations={"hami.io/vgpu-mig-allocations": json.dumps(full)})


def mig_bench(folder: Path, *pods: dict[str, Any]) -> Bench:
    return Bench(folder, *pods, records=[device_record(GPU_A, mode="mig", mig_profiles=[PROFILE])])


def test_a_mig_row_gets_the_instance_at_its_reserved_placement(tmp_path: Path) -> None:
    made = mig_bench(tmp_path, mig_pod())
    (grant,) = made.granted()
    assert list(grant.envs) == ["NVIDIA_VISIBLE_DEVICES"]
    assert grant.envs["NVIDIA_VISIBLE_DEVICES"].startswith("MIG-")
    assert grant.mounts == ()
    assert made.record.pods["uid-train"].given[0].mig == ((GPU_A, "1g.5gb", 6, 1),)


@pytest.mark.parametrize(
    "reservation",
    [{"gpuUUID": GPU_B}, {"containerIndex": 1}, {"placement": {"start": 0, "size": 1}}, {"profile": ""}],
)
def test_a_mig_row_without_its_reservation_is_refused(tmp_path: Path, reservation: dict[str, Any]) -> None:
    refusal = mig_bench(tmp_path, mig_pod(reservation)).refused()
    assert refusal.reason in (refusals.Reason.MIG, refusals.Reason.UNDECODABLE)
    assert "nlp/train" in refusal.message


def test_what_was_made_for_a_call_that_fails_is_undone(tmp_path: Path) -> None:
    """The second container's placement is impossible, so the first one's instance goes again."""
    one = {"deviceIndex": 0, "gpuUUID": GPU_A, "profile": "1g.5gb"}
    reserved = [
        {**one, "containerIndex": 0, "placement": {"start": 6, "size": 1}},
        {**one, "containerIndex": 1, "placement": {"start": 0, "size": 1}},
    ]
    notes = {"hami.io/vgpu-mig-allocations": json.dumps(reserved)}
    made = mig_bench(tmp_path, pod(rows=MIG_ROW * 2, containers=["one", "two"], annotations=notes))
    undone: list[tuple[str, devices.MigUse]] = []
    made.cards.dissolve = lambda card, use: undone.append((card, use))  # type: ignore[method-assign]
    assert made.refused(1, 1).reason is refusals.Reason.MIG
    assert undone == [(GPU_A, devices.MigUse("1g.5gb", devices.MigPlacement(6, 1)))]
    assert made.record.pods == {}


def test_a_row_of_both_kinds_of_card_is_refused(tmp_path: Path) -> None:
    records = [device_record(GPU_A, mode="mig", mig_profiles=[PROFILE]), device_record(GPU_B)]
    made = Bench(tmp_path, pod(rows=row((GPU_A, 1, 1), (GPU_B, 1, 1))), records=records)
    assert "both MIG and shared cards" in made.refused(2).message


def test_nothing_is_preferred_while_the_api_server_fails(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod())
    made.cluster.fail = [errors.Unreachable("refused")] * 3
    assert made.preferred(f"{GPU_B}-0") == (f"{GPU_B}-0",)  # whatever goes well together


def test_a_call_for_nothing_gets_nothing(tmp_path: Path) -> None:
    assert Bench(tmp_path, pod()).allocator.allocate([]) == ()


def test_an_agent_that_is_told_to_stop_waits_no_longer(tmp_path: Path) -> None:
    cluster = Cluster(pod())
    cluster.fail = [errors.Unreachable("refused")] * 9
    stop = loops.Stop()
    stop.ask()
    with pytest.raises(errors.Unreachable):
        patience.PatientReader(cluster, stop.event, (60.0, 60.0)).read(calls.node_get(name=NODE))
    assert len(cluster.fail) == 7
