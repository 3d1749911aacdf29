"""Device inventories: golden vectors, H42, both forms, and the order on write."""

from __future__ import annotations

from typing import Any

import pytest

from hami_platform.domain import devices, errors
from hami_platform.domain.wire import node_register
from tests.domain import golden

DECIDED = {
    "codec-node-006": "no uuid",
    "codec-node-017": "the same uuid twice",
    "codec-node-045": "no uuid",
}
"""Accepted by HAMi; refused here, since nothing could be booked on such a device."""


def card(**changes: Any) -> devices.Device:
    values: dict[str, Any] = {"uuid": "GPU-a", "index": 0, "vendor": "NVIDIA", "model": "NVIDIA-A10"}
    values |= {"memory_mib": 24576, "core_percent": 100, "slots": 10, "mode": "hami-core", "healthy": True}
    return devices.Device(**(values | changes))


def as_vector(device: devices.Device) -> dict[str, Any]:
    value: dict[str, Any] = {"id": device.uuid, "index": device.index, "count": device.slots, "type": device.model}
    value |= {"devmem": device.memory_mib, "devcore": device.core_percent, "numa": device.numa}
    value["health"] = device.healthy
    return value | ({"mode": device.mode} if device.mode else {})


DECODERS = {"nodeJSON": node_register.decode_json, "nodeText": node_register.decode_text}
ENCODERS = {"nodeJSON": node_register.encode, "nodeText": node_register.encode_text}
CASES = golden.steps("codec-node", op="codec")


@pytest.mark.parametrize("name, step, expected", CASES, ids=[case[0] for case in CASES])
def test_golden_inventories(name: str, step: dict[str, Any], expected: dict[str, Any]) -> None:
    decode, encode = DECODERS[step["kind"]], ENCODERS[step["kind"]]
    if expected.get("error") or name in DECIDED:
        with pytest.raises(errors.WireError):
            decode(step["in"], vendor="NVIDIA")
        return
    found = decode(step["in"], vendor="NVIDIA")
    # Custom info belongs to other vendors' topologies and is not read here.
    assert [as_vector(device) for device in found] == [
        {k: v for k, v in d.items() if k != "custom"} for d in expected["devices"]
    ]
    assert encode(found) == expected["encoded"]


@pytest.mark.parametrize(
    "text",
    [
        "GPU-a,10,24576,100,NVIDIA-A10,0,true:",
        "GPU-a,10,24576,100,NVIDIA-A10,0,true,0,hami-core:",
        '[{"id":"GPU-a","count":10,"devmem":24576,"devcore":100,"type":"NVIDIA-A10","mode":"hami-core","health":true}]',
    ],
)
def test_h42_all_three_forms_give_the_same_card(text: str) -> None:
    assert node_register.decode(text, vendor="NVIDIA") == (card(),)


@pytest.mark.parametrize("uuid", ["[", "[]", "null", " [", '[{"id":"x"}]'.replace(":", "")])
def test_a_uuid_that_looks_like_json_is_still_text(uuid: str) -> None:
    assert node_register.decode(f"{uuid},10,24576,100,NVIDIA-A10,0,true:", vendor="NVIDIA") == (card(uuid=uuid),)


def test_devices_are_written_sorted_by_uuid() -> None:
    ab = node_register.encode([card(uuid="GPU-a"), card(uuid="GPU-b", index=1)])
    assert node_register.encode([card(uuid="GPU-b", index=1), card(uuid="GPU-a")]) == ab


def test_zero_is_left_out_but_not_inside_a_profile() -> None:
    profile = devices.MigProfile("1g.5gb", 4864, 0, 1, (devices.MigPlacement(0, 1),))
    text = node_register.encode([card(healthy=False, mode="mig", mig_profiles=(profile,))])
    assert text == (
        '[{"id":"GPU-a","count":10,"devmem":24576,"devcore":100,"type":"NVIDIA-A10","mode":"mig","migProfiles":'
        '[{"name":"1g.5gb","memoryMB":4864,"core":0,"sliceCount":1,"placements":[{"start":0,"size":1}]}]}]'
    )


def test_peoples_columns_stay_out_of_the_wire() -> None:
    assert node_register.encode([card(cordoned=True, reserved_mib=512)]) == node_register.encode([card()])


@pytest.mark.parametrize(
    "text, field",
    [
        ('[{"id":"a"},{"id":"b","devmem":"1"}]', "device 1: devmem"),
        ('[{"id":"a","migProfiles":[{"name":1}]}]', "device 0: migProfiles 0: name"),
        ('[{"id":"a","migProfiles":{}}]', "device 0: migProfiles"),
        ('[{"id":"a","migProfiles":[{"placements":[{"size":-1}]}]}]', "device 0: migProfiles 0: placements 0: size"),
        ("[3]", "device 0"),
        ("a,1,1,1,T,0,true:b,1,1,1,T,0,maybe:", "device 1: health"),
        ("a,1,1,1,T,0,true,-1,m:", "device 0: index"),
    ],
)
def test_an_error_names_device_and_field(text: str, field: str) -> None:
    with pytest.raises(errors.WireError) as caught:
        node_register.decode(text, vendor="NVIDIA")
    assert caught.value.field == field


def test_a_name_with_a_separator_is_not_written_as_text() -> None:
    with pytest.raises(errors.WireError):
        node_register.encode_text([card(model="A10,24GB")])
