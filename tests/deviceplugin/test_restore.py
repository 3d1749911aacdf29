"""What containers were given is there again after a reboot; what is there stays as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deviceplugin import checkpoint, grants, refusals, restore
from tests.deviceplugin import nvml_stub
from tests.deviceplugin.builders import GPU_A, pod, row, typed
from tests.deviceplugin.driver import Driver
from tests.deviceplugin.nvml_stub import Gpu
from tests.deviceplugin.test_allocate import Bench

MIG = ("mig 1", *nvml_stub.A100_40GB)


def test_directories_that_went_are_made_again_and_others_keep_what_is_in_them(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod())
    made.granted()
    own = tmp_path / "vgpu" / "containers" / "uid-train_main"
    (own / "region.cache").touch()
    assert made.allocator.before_start([f"{GPU_A}-0"]) is None
    assert (own / "region.cache").exists()
    (own / "region.cache").unlink()
    own.rmdir()
    assert made.allocator.before_start([f"{GPU_A}-0"]) is None
    assert own.stat().st_mode & 0o777 == 0o777


def test_ids_that_nobody_was_given_are_somebody_elses(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod())
    made.granted()
    assert made.allocator.before_start([f"{GPU_A}-9"]) is None


def test_a_directory_that_cannot_be_made_again_refuses_the_start(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod())
    made.granted()
    own = tmp_path / "vgpu" / "containers" / "uid-train_main"
    own.rmdir()
    own.parent.rmdir()
    own.parent.touch()
    refusal = made.allocator.before_start([f"{GPU_A}-0"])
    assert isinstance(refusal, refusals.Refusal)
    assert refusal.message.startswith("pod nlp/train, container main: cannot prepare")


def mig_pod(name: str = "train", start: int = 6) -> dict[str, Any]:
    reserved = {
        "containerIndex": 0,
        "deviceIndex": 0,
        "gpuUUID": GPU_A,
        "profile": "1g.5gb",
        "placement": {"start": start, "size": 1},
    }
    notes = {"hami.io/vgpu-mig-allocations": json.dumps([reserved])}
    return pod(name, row((GPU_A, 4864, 15)), annotations=notes)


@pytest.fixture
def cut(tmp_path: Path, driver: Callable[..., Driver]) -> tuple[Bench, Driver]:
    """A node with one card in MIG mode and a pod that was given an instance of it."""
    made = driver(Gpu(GPU_A, more=MIG))
    bench = Bench(tmp_path, mig_pod())
    bench.cards = made.inventory()  # type: ignore[assignment]
    bench.restart()
    bench.granted()
    return bench, made


def test_an_instance_that_a_reboot_took_is_made_again_under_the_uuid_it_had(cut: tuple[Bench, Driver]) -> None:
    bench, made = cut
    (before,) = bench.cards.scan()[0].partitions
    made.scenario.with_name("scenario.mig").unlink()
    assert bench.cards.scan()[0].partitions == ()
    assert bench.allocator.before_start([f"{GPU_A}-0"]) is None
    assert bench.cards.scan()[0].partitions == (before,)


def test_an_instance_that_is_another_now_refuses_the_start(cut: tuple[Bench, Driver]) -> None:
    bench, made = cut
    state = made.scenario.with_name("scenario.mig")
    (before,) = bench.cards.scan()[0].partitions
    state.write_text(state.read_text().replace(f"{GPU_A} 1 ", f"{GPU_A} 2 "))
    refusal = bench.allocator.before_start([f"{GPU_A}-0"])
    assert isinstance(refusal, refusals.Refusal)
    assert f"its MIG instance {before.instance.uuid} is gone" in refusal.message


def test_only_pods_that_still_exist_are_restored(cut: tuple[Bench, Driver], tmp_path: Path) -> None:
    bench, made = cut
    made.scenario.with_name("scenario.mig").unlink()
    restorer = restore.Restorer(bench.record, bench.cards, grants.Enforcement(hook=str(tmp_path)), shared=False)
    restorer.for_pods(())
    assert bench.cards.scan()[0].partitions == ()
    restorer.for_pods([typed(mig_pod())])
    assert len(bench.cards.scan()[0].partitions) == 1


def test_records_of_older_agents_are_read_and_restored_as_far_as_they_go(tmp_path: Path) -> None:
    old = {"container": "main", "devices": [GPU_A], "mig": [], "reported": True}
    pods = {"uid-1": {"namespace": "nlp", "name": "train", "given": [old]}}
    (tmp_path / "agent.json").write_text(json.dumps({"version": 1, "pods": pods}))
    record = checkpoint.Checkpoint(tmp_path / "agent.json")
    restore.Restorer(record, None, grants.Enforcement(hook=str(tmp_path)), shared=False).for_pods(  # type: ignore[arg-type]
        [typed(pod(metadata={"uid": "uid-1"}))]
    )  # type: ignore[arg-type]
    assert (tmp_path / "vgpu" / "containers" / "uid-1_main").is_dir()
