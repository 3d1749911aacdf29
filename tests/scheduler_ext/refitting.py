"""What tests of `/refit` need: cards on n1, a pod that waits for its devices there, the request, and what is held."""

from __future__ import annotations

import json
from typing import Any

from accounting import live_view
from accounting.services import audit, cluster_api
from accounting.services.device_config import device_config
from hami_platform.domain.devices import Device
from hami_platform.domain.wire import node_register
from tests import builders
from tests.scheduler_ext.world import AGENT, Obj, World, pod

TO_ALLOCATE, ALLOCATED = "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-devices-allocated"
TOKEN = "the-installation's"


def cards(world: World, *found: Device) -> None:
    """n1 has these cards now."""
    note = {"hami.io/node-nvidia-register": node_register.encode(found)}
    world.patch("/api/v1/nodes/n1", {"metadata": {"annotations": note, "labels": AGENT}})
    world.compare()


def four(world: World, **kwargs: Any) -> None:
    cards(world, *(builders.device(f"GPU-{name}", index=index, **kwargs) for index, name in enumerate("abcd")))


def bound(world: World, body: Obj | None = None) -> Obj:
    """A pod that waits for its devices on n1."""
    made = world.create(body or pod("p"))
    assert world.filter(made)["NodeNames"] == ["n1"]
    assert world.bind(made) == ""
    return made


def uuids(world: World, index: int = 0, key: str = ALLOCATED) -> list[str]:
    """What the annotation gives to a container of p."""
    text = world.get("p")["metadata"]["annotations"][key].split(";")[index]
    return [part.split(",")[0] for part in text.split(":") if part]


def ask(world: World, made: Obj, *allowed: str, **changes: Any) -> Obj:
    meta = made["metadata"]
    body = {
        "podUID": meta["uid"], "podNamespace": meta["namespace"], "podName": meta["name"], "nodeName": "n1",
        "containerIndex": 0, "deviceType": "NVIDIA", "allowedDeviceUUIDs": list(allowed), **changes,
    }  # fmt: skip
    answer = send(world, body)
    assert answer.status_code == 200, answer.content
    return dict(json.loads(answer.content))


def send(world: World, body: Any, authorization: str = f"Bearer {TOKEN}") -> Any:
    data = json.dumps(body)
    return world.http.post("/refit", data, content_type="application/json", HTTP_AUTHORIZATION=authorization)


def held() -> dict[str, int]:
    """MiB held on each card of n1 that holds any."""
    states = live_view.live().refresh().states["n1"].devices
    return {one.device.uuid: one.held.memory_mib for one in states if one.held.memory_mib}


def other(world: World) -> tuple[str, str]:
    """(the card of container 0, another)."""
    (own,) = uuids(world)
    return own, next(uuid for uuid in ("GPU-n1-0", "GPU-n1-1") if uuid != own)


def clean() -> bool:
    return audit.differences(cluster_api.cluster_api(), config=device_config()) == []
