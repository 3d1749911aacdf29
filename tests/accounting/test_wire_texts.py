"""What a bound pod's annotations mean: every place on a MIG card that they name is occupied."""

from __future__ import annotations

from accounting.services import wire_texts
from hami_platform.domain.devices import ContainerKind, MigPlacement, MigUse, Share
from hami_platform.domain.requests import ContainerRequest
from tests.accounting.kube_objects import CONFIG

CONTAINERS = (ContainerRequest("main", ContainerKind.APP),)
MODELS = {("NVIDIA", "GPU-m"): "NVIDIA A100"}
USE = MigUse("1g.5gb", MigPlacement(6, 1))
RESERVED = (
    '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-m","profile":"1g.5gb","placement":{"start":6,"size":1}}]'
)


def read(row: str) -> tuple[Share, ...]:
    notes = {"hami.io/vgpu-devices-allocated": row, "hami.io/vgpu-mig-allocations": RESERVED}
    shares, aligned = wire_texts.shares_from(notes, CONTAINERS, MODELS, CONFIG)
    assert aligned
    return shares


def test_an_instance_in_a_row_is_one_share() -> None:
    (share,) = read("GPU-m,NVIDIA,4864,15:;")
    assert (share.memory_mib, share.core_percent, share.mig) == (4864, 15, USE)


def test_an_instance_in_no_row_still_occupies_its_place() -> None:
    (share,) = read(";")
    assert (share.uuid, share.memory_mib, share.core_percent, share.mig) == ("GPU-m", 0, 0, USE)
