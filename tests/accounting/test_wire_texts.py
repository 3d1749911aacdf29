"""What a bound pod's annotations mean: every place on a MIG card that they name is occupied."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accounting.models import Pod
from accounting.services import wire_texts
from hami_platform.domain.devices import ContainerKind, MigPlacement, MigUse, Share
from hami_platform.domain.requests import ContainerRequest
from hami_platform.domain.wire import mig_allocations
from tests.accounting import flow, kube_objects, rows
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


def made(start: int = 6, **ids: Any) -> str:
    (one,) = json.loads(RESERVED)
    one["placement"]["start"] = start
    return json.dumps([one | ids])


IDS: dict[str, Any] = {"migUUID": "MIG-a", "gpuInstanceID": 4, "computeInstanceID": 0}


def test_a_plugin_completes_a_reservation_with_ids() -> None:
    stored, seen = {wire_texts.MIG: RESERVED}, {wire_texts.MIG: made(**IDS)}
    text = wire_texts.mig_made(stored, seen)
    assert text is not None
    (one,) = mig_allocations.decode(text)
    assert one.use == USE
    assert one.runtime == mig_allocations.Runtime("MIG-a", 4, 0)
    assert wire_texts.mig_made({wire_texts.MIG: text}, {wire_texts.MIG: text}) is None
    assert wire_texts.mig_made({}, seen) == text  # of a pod that somebody else placed


def test_what_was_reserved_is_not_moved_by_an_annotation() -> None:
    stored = {wire_texts.MIG: RESERVED}
    for text in (made(5, **IDS), made(migUUID="MIG-a"), "[", "", RESERVED):
        assert wire_texts.mig_made(stored, {wire_texts.MIG: text}) is None, text
    assert wire_texts.mig_made(stored, {}) is None
    assert wire_texts.mig_made({}, stored) is None


@pytest.mark.django_db
def test_the_ids_of_an_instance_are_kept_when_its_pod_starts() -> None:
    rows.node("n1", 1, mode="mig", mig_profiles=rows.mig_profiles())
    share = rows.Given("GPU-n1-0", 4864, 14, mig=USE)
    reserved = RESERVED.replace("GPU-m", "GPU-n1-0")
    rows.pod("p1", state="bound", shares=[share], wire={wire_texts.MIG: reserved})
    annotated = {wire_texts.MIG: made(**IDS).replace("GPU-m", "GPU-n1-0")}
    shown = kube_objects.pod(node="n1", phase="Running", statuses={"main": kube_objects.running()})
    shown["metadata"]["annotations"] |= annotated
    flow.show(shown)
    (one,) = mig_allocations.decode(Pod.objects.get(uid="uid-p1").wire[wire_texts.MIG])
    assert one.runtime is not None
