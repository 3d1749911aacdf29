"""What the monitor shows and writes, over real files in container directories. The pods are given."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import structlog

from deviceplugin import board, checkpoint, inventory, monitor, monitor_metrics, monitor_samples, region_files
from deviceplugin.monitor_use import CardUse, Picture
from deviceplugin.region_layout import TRANSITIONAL, V0, V1, Layout
from hami_platform import metrics
from hami_platform.kube import objects
from tests.deviceplugin import regions
from tests.deviceplugin.builders import GPU_A, GPU_B, NODE, card, pod, row, running, typed
from tests.deviceplugin.regions import Process, content, write

NOW_S = 160.0
MIB = 1 << 20
SHARE = f'container="main",device_uuid="{GPU_A}",namespace="nlp",pod="train",vdevice_index="0",zone="vGPU"'


class Cards:
    """Two cards that can be measured; `blind` ones cannot."""

    def __init__(self) -> None:
        self.blind = False

    def scan(self) -> tuple[inventory.Card, ...]:
        return card(GPU_A), card(GPU_B, index=1)

    def realise(self, card: str, use: Any) -> inventory.MigInstance:
        raise NotImplementedError

    def dissolve(self, card: str, use: Any) -> None:
        raise NotImplementedError

    def use(self) -> tuple[CardUse, ...]:
        if self.blind:
            raise inventory.InventoryError("NVML: GPU is lost")
        return CardUse(GPU_A, 0, "NVIDIA A10", 5 * MIB, 37, 12), CardUse(GPU_B, 1, "Tesla P4")


class Bench:
    """A node with one running pod, `train`, whose container `main` has a slice of card A."""

    def __init__(self, folder: Path, *, steer: bool = True) -> None:
        self.directories = folder / "containers"
        self.pods: dict[str, objects.Pod] | None = {}
        self.record = checkpoint.Checkpoint(folder / "agent.json")
        self.cards = Cards()
        self.samples = monitor_samples.Samples()
        self.shown = board.Board()
        self.shown.publish(self.cards.scan())
        options = monitor.Options(self.directories, steer=steer)
        source, now_s = self, lambda: NOW_S
        self.monitor = monitor.Monitor(options, source, self.shown, self.record, self.cards, self.samples, now_s)  # type: ignore[arg-type]
        self.pod()

    def known(self) -> Mapping[str, objects.Pod] | None:
        return self.pods

    def pod(self, name: str = "train", rows: str = row((GPU_A, 1, 30)), **changes: Any) -> None:
        notes = {"hami.io/vgpu-devices-allocated": rows} | changes.pop("annotations", {})
        changes = {"status": running()} | changes
        assert self.pods is not None
        self.pods[f"uid-{name}"] = typed(pod(name, rows, annotations=notes, **changes))

    def region(self, name: str = "train", container: str = "main", **facts: Any) -> Path:
        """`layout` and the rest of `content`; the usual limit is what the pod was given."""
        data = content(facts.pop("layout", V1), **{"limits": [MIB], **facts})
        return write(self.directories / f"uid-{name}_{container}" / "a.cache", data)

    def look(self) -> Picture:
        assert self.monitor.step() == monitor.PERIOD_S
        return self.monitor.picture

    def lines(self, *, legacy: bool = False) -> list[str]:
        """What `/metrics` says, with labels in alphabetical order."""
        self.look()
        shown = monitor_metrics.MonitorCollector(NODE, lambda: self.monitor.picture, legacy=legacy, now_s=lambda: NOW_S)
        families = [family for family in shown.collect() if family.name != "hami_build_info"]
        return [line(sample) for family in families for sample in family.samples]


def line(sample: Any) -> str:
    """One series as text."""
    labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
    return f"{sample.name}{{{labels}}} {sample.value}"


def counter(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


def test_the_eight_figures_of_a_container(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.region(limits=[10000], last_kernel=100)
    found = [line for line in bench.lines() if "train" in line]
    assert sorted(found) == sorted(
        f"{name}{{{SHARE}}} {value}"
        for name, value in (
            ("hami_vgpu_memory_used_bytes", 8000),
            ("hami_vgpu_memory_limit_bytes", 10000),
            ("hami_container_device_memory_bytes", 8000),
            ("hami_container_device_utilization_ratio", 42),
            ("hami_container_last_kernel_elapsed_seconds", 60),
            ("hami_vgpu_memory_context_bytes", 1000),
            ("hami_vgpu_memory_module_bytes", 500),
            ("hami_vgpu_memory_buffer_bytes", 300),
        )
    )


@pytest.mark.parametrize("last_kernel, expected", [(0, []), (100, [60.0]), (159, [1.0]), (500, [0.0])])
def test_the_time_since_a_launch_is_never_negative_and_absent_before_the_first(
    tmp_path: Path, last_kernel: int, expected: list[float]
) -> None:
    bench = Bench(tmp_path)
    bench.region(last_kernel=last_kernel)
    found = [line for line in bench.lines() if line.startswith("hami_container_last_kernel_elapsed_seconds")]
    assert [float(line.rpartition(" ")[2]) for line in found] == expected


def test_the_cards_own_figures_stand_beside_them(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    device = f'device_index="0",device_type="NVIDIA-NVIDIA A10",device_uuid="{GPU_A}"'
    assert bench.lines() == [
        f'hami_host_gpu_memory_used_bytes{{{device},node="n1",zone="vGPU"}} 5242880',
        f'hami_host_gpu_utilization_ratio{{{device},node="n1",zone="vGPU"}} 37',
        f'hami_host_gpu_memory_controller_utilization_ratio{{{device},zone="vGPU"}} 12',
    ]


def test_the_older_names_stand_beside_them_when_asked_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path, steer=False)
    bench.region(limits=[10000], last_kernel=100)
    new = bench.lines()
    old = [line for line in bench.lines(legacy=True) if line not in new]
    share = f'ctrname="main",deviceuuid="{GPU_A}",podname="train",podnamespace="nlp",vdeviceid="0",zone="vGPU"'
    host = f'deviceidx="0",devicetype="NVIDIA-NVIDIA A10",deviceuuid="{GPU_A}",nodeid="n1",zone="vGPU"'
    parts = f'context="1000",ctrname="main",data="300",deviceuuid="{GPU_A}",module="500",offset="6200"'
    assert old == [
        f"HostGPUMemoryUsage{{{host}}} 5242880",
        f"HostCoreUtilization{{{host}}} 37",
        f"vGPU_device_memory_usage_in_bytes{{{share}}} 8000",
        f"vGPU_device_memory_limit_in_bytes{{{share}}} 10000",
        f"Device_utilization_desc_of_container{{{share}}} 42",
        f"Device_last_kernel_of_container{{{share}}} 60",
        f"Device_memory_desc_of_container{{{parts},{share.split(',', 2)[2]}}} 8000",
    ]


def test_a_mig_instance_is_shown_with_its_ids(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    use = {"containerIndex": 0, "deviceIndex": 0, "gpuUUID": GPU_A, "profile": "1g.5gb"}
    ids = {"placement": {"start": 6, "size": 1}, "migUUID": "MIG-1", "gpuInstanceID": 0, "computeInstanceID": 0}
    bench.pod(annotations={"hami.io/vgpu-mig-allocations": json.dumps([use | ids])})
    own = 'gpu_instance_id="0",mig_uuid="MIG-1",namespace="nlp",pod="train",profile="1g.5gb",vdevice_index="0"'
    start = f'compute_instance_id="0",container="main",device_uuid="{GPU_A}"'
    found = bench.lines(legacy=True)
    assert f'hami_mig_device_info{{{start},{own},zone="vGPU"}} 1' in found
    assert any(line.startswith("MigInfo{") and 'instanceid="0"' in line for line in found)


@pytest.mark.parametrize(
    "change",
    [
        {"status": {}},
        {"status": {"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 0}}}]}},
        {"status": {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}},
        None,
    ],
    ids=["not started", "ended", "between two tries", "gone"],
)
def test_the_series_end_with_their_container(tmp_path: Path, change: dict[str, Any] | None) -> None:
    """Its region stays behind, with the numbers of its last processes."""
    bench = Bench(tmp_path)
    bench.region()
    assert bench.look().containers
    bench.pods = {}
    if change is not None:
        bench.pod(**change)
    assert bench.look().containers == ()
    assert not [line for line in bench.lines() if "train" in line]


def test_a_sidecar_is_shown_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    states = {"initContainerStatuses": [{"name": "proxy", "state": {"running": {}}}]}
    bench.pod(rows=row((GPU_A, 1, 0)) + row((GPU_A, 1, 0)), inits=["proxy"], status=states)
    bench.region(container="proxy")
    assert [one.container for one in bench.look().containers] == ["proxy"]


@pytest.mark.parametrize("layout", [V0, V1, TRANSITIONAL], ids=lambda layout: layout.name)
def test_every_layout_is_shown_and_steered(tmp_path: Path, layout: Layout) -> None:
    bench = Bench(tmp_path)
    path = bench.region(layout=layout, version=(1, 1), recent=2, switch=1)
    assert bench.look().containers[0].devices[0].total_bytes == 8000
    assert (regions.word(path, layout.recent_kernel), regions.word(path, layout.utilization_switch)) == (1, 0)


def test_beside_another_monitor_nothing_is_written(tmp_path: Path) -> None:
    bench = Bench(tmp_path, steer=False)
    path = bench.region(recent=2, switch=1)
    before = path.read_bytes()
    bench.look()
    assert path.read_bytes() == before


def test_a_high_priority_pod_blocks_the_others_on_its_card_only(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.pod("first", env={"CUDA_TASK_PRIORITY": "0"})
    bench.pod("other", rows=row((GPU_B, 1, 30)))
    bench.region("first", priority=0, recent=2)
    low = bench.region("train", recent=0, switch=0)
    far = bench.region("other", uuids=[GPU_B], recent=0, switch=0)
    bench.look()
    assert (regions.word(low, V1.recent_kernel), regions.word(low, V1.utilization_switch)) == (-1, 1)
    assert (regions.word(far, V1.recent_kernel), regions.word(far, V1.utilization_switch)) == (0, 0)


def test_a_region_cannot_give_itself_priority(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.pod("greedy")
    bench.region("greedy", priority=0, recent=2)
    low = bench.region("train", recent=0, switch=0)
    assert bench.look().problems == {"priority_changed": 1}
    assert regions.word(low, V1.recent_kernel) == 0


def test_before_the_pods_are_known_the_cards_are_measured_and_no_region_is_touched(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.region()
    before = path.read_bytes()
    bench.pods = None
    assert bench.monitor.step() < monitor.PERIOD_S
    assert (bench.monitor.picture.containers, path.read_bytes()) == ((), before)
    assert len(bench.monitor.picture.cards) == 2


def test_a_card_that_cannot_be_measured_leaves_the_containers_shown(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.region()
    bench.cards.blind = True
    picture = bench.look()
    assert (picture.cards, len(picture.containers)) == ((), 1)


# --- hostile content -----------------------------------------------------------------------------------


def make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def make_three(path: Path) -> None:
    for name in ("b.cache", "c.cache"):
        (path.parent / name).touch()


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "too_short"),
    "garbage": (lambda path: path.write_bytes(b"\xff" * 3_000_000), "magic"),
    "truncated": (lambda path: os.truncate(path, 1_000_000), "size"),
    "other version": (lambda path: path.write_bytes(content(version=(2, 0))), "version"),
    "fifo": (make_fifo, "not_a_file"),
    "link": (make_link, "not_a_file"),
    "many files": (make_three, "several_files"),
}
CLAIMS: dict[str, tuple[dict[str, Any], str]] = {
    "somebody else's card": ({"uuids": [GPU_B]}, "foreign_device"),
    "a card that is nowhere": ({"uuids": ["GPU-none"]}, "foreign_device"),
    "the same card twice": ({"uuids": [GPU_A, GPU_A], "limits": [MIB, MIB]}, "repeated_device"),
    "more than the card has": ({"processes": [Process({0: (0, 0, 0, 24577 * MIB)})]}, "implausible"),
    "more than there is": ({"processes": [Process({0: (2**64 - 1,) * 4})] * 9}, "implausible"),
    "more than all time": ({"processes": [Process(sm={0: 2**63})]}, "implausible"),
    "another limit": ({"limits": [2 * MIB]}, "limit_changed"),
    "no limit": ({"limits": [0]}, "limit_changed"),
    "a name that is no text": ({"uuids": [b"\xff\xfe"]}, "unreadable_uuid"),
    "a slot never finished": ({"processes": [Process(sequence=1)]}, "torn"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_directory_harms_nobody_else(tmp_path: Path, case: str) -> None:
    """No crash, no wrong total, one log line, one metric; and the neighbour is shown as before."""
    spoil, problem = HOSTILE[case]
    bench = Bench(tmp_path)
    bench.pod("bad")
    path = bench.region("bad")
    path.parent.chmod(0o777)
    spoil(path)
    bench.region("train")
    told = counter("hami_platform_agent_region_problems_found_total", problem=problem)
    with structlog.testing.capture_logs() as logged:
        pictures = [bench.look() for _ in range(3)]
    assert [[one.pod for one in picture.containers] for picture in pictures] == [["train"]] * 3
    assert pictures[-1].problems == {problem: 1}
    assert [line["problem"] for line in logged if line["event"] == "region_problem"] == [problem]
    assert counter("hami_platform_agent_region_problems_found_total", problem=problem) == told + 1
    assert counter("hami_platform_agent_region_problems", problem=problem) == 1


@pytest.mark.parametrize("case", CLAIMS)
def test_a_hostile_region_spoils_no_total(tmp_path: Path, case: str) -> None:
    facts, problem = CLAIMS[case]
    bench = Bench(tmp_path)
    bench.pod("bad")
    bench.region("bad", **facts)
    bench.region("train")
    picture = bench.look()
    assert picture.problems == {problem: 1}
    sums: dict[str, int] = {}
    for one in picture.containers:
        for device in one.devices:
            sums[device.uuid] = sums.get(device.uuid, 0) + device.total_bytes
    assert sums in ({GPU_A: 8000}, {GPU_A: 16000})


def test_a_region_that_is_well_again_is_shown_and_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.region(magic=1)
    assert bench.look().containers == ()
    write(path.with_name("new"), content(limits=[MIB])).rename(path)  # another file under the same name
    with structlog.testing.capture_logs() as logged:
        assert bench.look().containers[0].devices[0].total_bytes == 8000
    assert "region_well_again" in [line["event"] for line in logged]
    assert counter("hami_platform_agent_region_problems", problem="magic") == 0


def test_samples_are_the_highest_memory_and_the_mean_of_the_cores(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for memory, cores in ((3 * MIB, 10), (5 * MIB - 1, 20), (MIB, 60)):
        bench.region(processes=[Process({0: (0, 0, 0, memory)}, {0: cores})])
        bench.look()
    assert [(s.uuid, s.pod_uid, s.container, s.memory_used_mib, s.core_used_percent) for s in bench.samples.take()] == [
        (GPU_A, "", "", 5, 37),
        (GPU_A, "uid-train", "main", 5, 30),
    ]
    assert bench.samples.take() == ()


def test_what_the_file_system_refuses_is_a_problem_of_that_container_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    bench.pod("bad")
    bench.region("bad")
    bench.region("train")
    open_ = region_files.opened

    def refusing(directories: Path, owner: region_files.Owner, *, writable: bool) -> Any:
        if owner.uid == "uid-bad":
            raise PermissionError(13, "Permission denied")
        return open_(directories, owner, writable=writable)

    monkeypatch.setattr(region_files, "opened", refusing)
    picture = bench.look()
    assert ([one.pod for one in picture.containers], picture.problems) == (["train"], {"unreadable": 1})


def test_directories_of_others_are_left_alone(tmp_path: Path) -> None:
    """Of pods that are gone, and what is no container's directory: no problem, no series."""
    bench = Bench(tmp_path)
    bench.region("gone")
    write(bench.directories / "junk" / "a.cache", b"x")
    write(bench.directories / "uid-train_unknown" / "a.cache", b"x")
    picture = bench.look()
    assert (picture.containers, picture.problems) == ((), {})
