"""CDI specifications: what they say, where the driver's files come from, and when they are written."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from deviceplugin import cdi, devnodes, driver_files, inventory, reach, runtime, specs
from hami_platform.domain import devices
from tests.deviceplugin.builders import GPU_A, GPU_B, card

CDI = runtime.Handing(strategies=(runtime.CDI_CRI,))
PARTITION = inventory.Partition(inventory.MigInstance("MIG-1", 3, 0), "1g.5gb", devices.MigPlacement(0, 1))
LIBRARIES = "usr/lib/x86_64-linux-gnu"


def touched(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A node's root with a driver, its device nodes, and the rights of one MIG instance."""
    root = tmp_path / "root"
    touched(root, *devnodes.CONTROL[:3], "dev/nvidia0", "dev/gdrdrv")
    touched(
        root,
        *(f"{LIBRARIES}/{name}.so.550.54.15" for name in ("libcuda", "libnvidia-ml")),
        f"{LIBRARIES}/libcuda.so.1",
        f"{LIBRARIES}/libc.so.6",
        f"{LIBRARIES}/libnvidia-old.so.470.1.1",
        "usr/bin/nvidia-smi",
        "lib/firmware/nvidia/550.54.15/gsp.bin",
    )
    for name, minor in (("access", 21), ("ci0/access", 22)):
        touched(root, f"proc/gpu1/mig/gi3/{name}")
        (root / f"proc/gpu1/mig/gi3/{name}").write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\n")
    return root


def nodes_of(host: Path) -> devnodes.DeviceNodes:
    return devnodes.DeviceNodes(host, host / "proc")


def specs_of(host: Path, handing: runtime.Handing = CDI) -> specs.Specs:
    plan = specs.Plan(
        host / "cdi", driver_files.find(host), cdi.Host(driver_root="/run/driver", dev_root="/run/driver")
    )
    return specs.Specs(plan, handing, nodes_of(host), host)


def written(host: Path, kind: str = "gpu") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((host / "cdi" / f"k8s.device-plugin.nvidia.com-{kind}.json").read_text())
    return found


def test_the_drivers_files_are_those_of_its_version(host: Path) -> None:
    assert driver_files.find(host) == cdi.DriverFiles(
        libraries=tuple(f"/{LIBRARIES}/{name}.so.550.54.15" for name in ("libcuda", "libnvidia-ml")),
        programs=("/usr/bin/nvidia-smi",),
        others=("/lib/firmware/nvidia/550.54.15",),
    )


def test_of_two_drivers_in_one_folder_the_newer_counts(host: Path) -> None:
    touched(host, f"{LIBRARIES}/libcuda.so.1000.1.1", f"{LIBRARIES}/libcuda.so.99.9")
    assert driver_files.find(host).libraries == (f"/{LIBRARIES}/libcuda.so.1000.1.1",)


def test_without_a_driver_the_places_looked_at_are_named(tmp_path: Path) -> None:
    with pytest.raises(driver_files.NoDriverError, match=f"below {tmp_path}: usr/lib"):
        driver_files.find(tmp_path)


def test_a_card_is_specified_under_uuid_and_index_and_all_cards_together(host: Path) -> None:
    specs_of(host).write((card(minor=0), card(GPU_B, index=1, minor=1)))
    found = written(host)
    assert (found["cdiVersion"], found["kind"]) == ("0.5.0", "k8s.device-plugin.nvidia.com/gpu")
    paths = {one["name"]: [node["path"] for node in one["containerEdits"]["deviceNodes"]] for one in found["devices"]}
    assert paths == {
        GPU_A: ["/dev/nvidia0"],
        "0": ["/dev/nvidia0"],
        GPU_B: ["/dev/nvidia1"],
        "1": ["/dev/nvidia1"],
        "all": ["/dev/nvidia0", "/dev/nvidia1"],
    }


def test_a_card_that_the_driver_may_count_anew_is_specified_by_its_uuid_alone(host: Path) -> None:
    specs_of(host).write((card(minor=0, numbered=False),))
    assert [one["name"] for one in written(host)["devices"]] == [GPU_A, "all"]


def test_every_container_gets_control_nodes_the_drivers_files_and_hooks(host: Path) -> None:
    specs_of(host).write((card(minor=0),))
    edits = written(host)["containerEdits"]
    assert edits["deviceNodes"][0] == {"path": "/dev/nvidiactl", "hostPath": "/run/driver/dev/nvidiactl"}
    assert len(edits["deviceNodes"]) == 3  # there is no nvidia-modeset
    assert {one["hostPath"]: one["containerPath"] for one in edits["mounts"]} == {
        f"/run/driver{path}": path
        for path in (
            f"/{LIBRARIES}/libcuda.so.550.54.15",
            f"/{LIBRARIES}/libnvidia-ml.so.550.54.15",
            "/usr/bin/nvidia-smi",
            "/lib/firmware/nvidia/550.54.15",
        )
    }
    links, cache = (one["args"] for one in edits["hooks"])
    assert links[:3] == ["nvidia-ctk", "hook", "create-symlinks"]
    assert f"libcuda.so.1::/{LIBRARIES}/libcuda.so" in links
    assert cache == ["nvidia-ctk", "hook", "update-ldcache", "--folder", f"/{LIBRARIES}"]


def test_the_program_that_is_only_for_hooks_takes_no_word_before_them() -> None:
    files = cdi.DriverFiles(libraries=("/lib/libcuda.so.1.1",))
    text = cdi.gpus([], [], files, cdi.Host(hook="/opt/nvidia-cdi-hook"))
    assert json.loads(text)["containerEdits"]["hooks"][1]["args"][:2] == ["nvidia-cdi-hook", "update-ldcache"]
    assert json.loads(cdi.gpus([], [], files, cdi.Host(hook="")))["containerEdits"]["hooks"] == []


def test_a_mig_instance_is_specified_with_its_rights(host: Path) -> None:
    specs_of(host).write((card(mode="mig", minor=1, partitions=(PARTITION,)),))
    one = written(host)["devices"][0]
    assert one["name"] == "MIG-1"
    assert [node["path"] for node in one["containerEdits"]["deviceNodes"]] == [
        "/dev/nvidia1",
        "/dev/nvidia-caps/nvidia-cap21",
        "/dev/nvidia-caps/nvidia-cap22",
    ]


def test_an_instance_whose_rights_are_unknown_is_left_out_and_cannot_be_given(host: Path) -> None:
    other = dataclasses.replace(PARTITION, instance=inventory.MigInstance("MIG-2", 4, 0))
    there = card(mode="mig", minor=1, partitions=(other, PARTITION))
    specs_of(host).write((there,))
    assert [one["name"] for one in written(host)["devices"]] == ["MIG-1", "all"]
    with pytest.raises(reach.UnreachableError, match="gi4/access"):
        reach.Reach(CDI, nodes_of(host)).to_instances([(there, other.instance)])


def test_extras_and_channels_have_specifications_of_their_own(host: Path) -> None:
    specs_of(host, dataclasses.replace(CDI, extras=("gdrcopy",), imex=("0",))).write(())
    assert written(host, "gdrcopy")["devices"][0]["containerEdits"]["deviceNodes"][0]["path"] == "/dev/gdrdrv"
    assert written(host, "imex-channel")["devices"][0]["name"] == "0"


def test_an_extra_that_the_node_does_not_have_is_an_error(host: Path) -> None:
    with pytest.raises(specs.SpecError, match=r"gds is enabled, and this node has none of dev/nvidia-fs\*"):
        specs_of(host, dataclasses.replace(CDI, extras=("gds",))).write(())


def test_without_cards_there_is_no_device_without_edits(host: Path) -> None:
    specs_of(host).write(())
    assert written(host)["devices"] == []


def test_a_specification_is_written_only_when_it_differs(host: Path) -> None:
    made = specs_of(host)
    made.write((card(minor=0),))
    path = host / "cdi" / specs.GPUS
    before = path.stat().st_ino
    made.write((card(minor=0),))
    assert path.stat().st_ino == before
    made.write((card(minor=5),))
    assert path.stat().st_ino != before
    assert [one.name for one in (host / "cdi").iterdir()] == [specs.GPUS]


def test_while_specifications_cannot_be_written_nothing_is_given(host: Path) -> None:
    (host / "cdi").touch()
    reached = reach.Reach(CDI, nodes_of(host), specs_of(host))
    reached.show((card(minor=0),))
    with pytest.raises(reach.UnreachableError, match="CDI specification"):
        reached.to_cards((card(minor=0),))
    (host / "cdi").unlink()
    reached.show((card(minor=0),))
    assert reached.to_cards((card(minor=0),)).cdi == (f"k8s.device-plugin.nvidia.com/gpu={GPU_A}",)


def test_a_new_instance_is_specified_before_it_is_given(host: Path) -> None:
    there = card(mode="mig", minor=1, partitions=(PARTITION,))

    class Cards:
        def scan(self) -> tuple[inventory.Card, ...]:
            return (there,)

    reached = reach.Reach(CDI, nodes_of(host), specs_of(host), Cards())  # type: ignore[arg-type]
    assert reached.to_instances([(card(mode="mig", minor=1), PARTITION.instance)]).cdi
    assert written(host)["devices"][0]["name"] == "MIG-1"


def test_a_card_whose_number_the_driver_does_not_tell_cannot_be_given_by_its_node(host: Path) -> None:
    with pytest.raises(reach.UnreachableError, match="minor number"):
        reach.Reach(CDI, nodes_of(host)).to_cards((card(),))
    assert reach.Reach(None, nodes_of(host)).to_cards((card(),)).envs == {"NVIDIA_VISIBLE_DEVICES": GPU_A}
