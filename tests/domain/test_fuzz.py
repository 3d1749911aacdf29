"""Whatever stands in an annotation, a capacity or a pod: readers raise the domain's own error, or nothing.

Texts are of three kinds: any bytes, any JSON, and texts of a valid kind with a few places changed, which get furthest.
"""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.services import node_seen, seen
from hami_platform.domain import devices, errors, units
from hami_platform.domain.vendors import base, parse, registry
from hami_platform.domain.wire import (
    handshake,
    mig_allocations,
    node_lock,
    node_register,
    pair_scores,
    pod_devices,
    pod_facts,
    pod_request,
    weights,
)

CONFIG = registry.default_config()

CODECS: dict[str, Callable[[str], object]] = {
    "pod_devices": pod_devices.decode,
    "node_register": lambda text: node_register.decode(text, vendor="NVIDIA"),
    "node_register json": lambda text: node_register.decode_json(text, vendor="NVIDIA"),
    "node_register text": lambda text: node_register.decode_text(text, vendor="NVIDIA"),
    "pair_scores": pair_scores.decode,
    "mig_allocations": mig_allocations.decode,
    "node_lock": node_lock.decode,
    "weights": weights.decode,
    "handshake": handshake.decode,
}
"""Every module of domain.wire that reads annotations."""

VALID = (
    (
        '[{"id":"GPU-a","index":1,"count":10,"devmem":24576,"devcore":100,"type":"A10","numa":1,"mode":"mig","migProfiles":'
        '[{"name":"1g","memoryMB":4864,"core":15,"sliceCount":1,"placements":[{"start":6,"size":1}]}],"health":true}]'
    ),
    "GPU-a,10,7680,100,NVIDIA-Tesla P4,0,true,1,hami-core:",
    ";GPU-a,NVIDIA,2500,25:GPU-b,NVIDIA,2500,25:;",
    '[{"uuid":"GPU-0","score":{"GPU-1":50,"GPU-2":20}}]',
    (
        '[{"containerIndex":1,"deviceIndex":0,"gpuUUID":"GPU-a","profile":"2g.10gb","placement":{"start":2,"size":2},'
        '"migUUID":"MIG-a","gpuInstanceID":4,"computeInstanceID":0}]'
    ),
    "2026-08-21T08:00:00+08:00,default,gpu-pod",
    "Requesting_2026-08-21 08:00:00",
    "slot=1,core=1,memory=3",
    (
        '[{"uuid":"M-1","model":"C500","total":65536,"compute":100,"numa":0,"healthy":true,"qosPolicy":"fixed-share",'
        '"linkZone":1,"deviceId":0,"sdevice":16}]'
    ),
    '{"profiles":{"1g.6gb":"0"},"devices":[{"minor":"0","index":"0","uuid":"u","capacity":"6","memory":"24"}]}',
    '{"1":10,"2":30,"3":5}',
)
PIECES = st.sampled_from(
    ("", "-1", "99999999999999999999", "null", "[]", "{}", '""', "\x00", ",", ":", ";", "1e999", "NaN", "٣", '"',
     "\\u0000", "[" * 500, "true", "1.5", "\\ud800")
)  # fmt: skip


@st.composite
def changed(draw: st.DrawFn) -> str:
    """A valid text of some format with some stretches replaced."""
    text = draw(st.sampled_from(VALID))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(PIECES | st.text(max_size=4)) + text[end:]
    return text


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
JSON: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
BYTES = st.binary(max_size=60).map(lambda data: data.decode("utf-8", errors="surrogateescape"))
TEXTS = st.text(max_size=60) | BYTES | JSON.map(json.dumps) | changed()
SENT = TEXTS.map(lambda text: text.encode(errors="replace").decode())
"""As the API server may send them: it and our reader of its answers take whole characters only."""


@pytest.mark.parametrize("name", CODECS)
@given(text=TEXTS)
def test_a_codec_raises_only_its_own_error(name: str, text: str) -> None:
    with contextlib.suppress(errors.WireError):
        CODECS[name](text)


@given(value=JSON)
def test_stored_forms_raise_only_their_own_error(value: Any) -> None:
    for decode in (pod_request.decode, pod_facts.decode):
        with contextlib.suppress(errors.WireError):
            decode(value)


KEYS = sorted(
    {
        key
        for vendor in CONFIG.vendors
        for key in (vendor.register_key, vendor.pair_scores_key, vendor.handshake_key)
        if key
    }
    | {"metax-tech.com/gpu.topology.losses", "metax-tech.com/gpu.topology.scores", "metax-tech.com/node-gpu-devices"}
    | {"hami.io/device-cordon", "hami.io/mutex.lock", "enflame.com/gcu-drs-capacity", "hami.io/node-register-xpu"}
)
NAMES = sorted(set(CONFIG.resource_names) | {"cpu"})
AMOUNTS = (
    st.integers(-(2**70), 2**70)
    | st.integers(0, 20)
    | st.sampled_from(("1E", "9223372036854775807", "x", "", "-1", "1e40"))
)


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Any]:
    """A node object whose texts and amounts may be anything."""
    amounts = {
        name: str(amount) for name, amount in draw(st.dictionaries(st.sampled_from(NAMES), AMOUNTS, max_size=4)).items()
    }
    annotations = draw(st.dictionaries(st.sampled_from(KEYS), SENT, max_size=4))
    labels = draw(st.dictionaries(st.sampled_from(("node.kubernetes.io/instance-type", "a")), st.text(max_size=5)))
    return {
        "metadata": {"name": "n1", "annotations": annotations, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


@pytest.mark.parametrize("vendor", CONFIG.vendors, ids=lambda one: one.word)
@given(text=TEXTS, node=nodes())
@settings(max_examples=25)
def test_a_vendor_reads_any_node_or_raises_only_the_wires_error(
    vendor: base.Vendor, text: str, node: dict[str, Any]
) -> None:
    annotations = dict.fromkeys(KEYS, text)
    capacity = {name: units.whole(amount) for name, amount in node["status"]["capacity"].items() if readable(amount)}
    with contextlib.suppress(errors.WireError):
        found = vendor.registered(base.NodeSource("n1", annotations, node["metadata"]["labels"], capacity))
        sensible(found)


def readable(amount: str) -> bool:
    try:
        units.whole(amount)
    except errors.InvalidQuantity:
        return False
    return True


def sensible(found: Any) -> None:
    """What was read can be kept: bounded in number and in every amount, of characters that a database takes."""
    assert max(Counter(one.vendor for one in found).values(), default=0) <= MOST
    for one in found:
        assert isinstance(one, devices.Device)
        assert 0 <= one.memory_mib < 2**63
        assert 0 <= one.core_percent < 2**31
        assert 0 <= one.slots < 2**31
        assert 0 <= one.index < 2**31
        assert "\0" not in json.dumps([one.uuid, one.model, one.mode, one.custom]).replace("\\u0000", "\0")
        assert all(text.encode() for text in (one.uuid, "x" + one.model, "x" + one.mode))


MOST = 1024
"""Cards of one vendor that a node may be believed to have."""


@pytest.mark.parametrize("name", ["\\ud800", "a\\udc00b", "\\u0000", "x" * 200])
def test_a_name_that_no_database_takes_is_replaced_or_refused(name: str) -> None:
    register = f'[{{"id":"{name}","type":"{name}","count":1,"devmem":1,"devcore":1}}]'
    scores = f'[{{"uuid":"{name}","score":{{"{name}":5}}}}]'
    metax = f'[{{"uuid":"M","model":"{name}","qosPolicy":"{name}"}}]'
    drs = f'{{"profiles":{{}},"devices":[{{"minor":"{name}","index":"{name}","capacity":6}}]}}'
    texts = {"hami.io/node-nvidia-register": register, "hami.io/node-nvidia-score": scores}
    texts |= {"metax-tech.com/node-gpu-devices": metax, "enflame.com/gcu-drs-capacity": drs}
    found = node_seen.from_object({"metadata": {"name": "n1", "annotations": texts}}, CONFIG)
    sensible(found.devices)
    for pair in found.pair_scores:
        assert all("\0" not in one and len(one) <= 128 and one.encode() for one in pair)


@given(node=nodes())
def test_a_node_is_always_read(node: dict[str, Any]) -> None:
    found = node_seen.from_object(node, CONFIG)
    sensible(found.devices)
    assert found.fingerprint(())


@pytest.mark.parametrize("amount", ["9223372036854775807", "1E", "1e40", "2147483648"])
def test_an_impossible_capacity_is_no_impossible_number_of_cards(amount: str) -> None:
    for capacity in (dict.fromkeys(NAMES, amount), *({name: amount} for name in NAMES)):
        node = {"metadata": {"name": "n1"}, "status": {"capacity": capacity}}
        sensible(node_seen.from_object(node, CONFIG).devices)


QUANTITIES = (
    st.integers(-5, 2**40).map(str)
    | st.sampled_from(("1Gi", "0.5", "x", "", "1e30", "-1", "99.5", "1m"))
    | st.text(max_size=4)
)
POLICIES = ("device-scoring-weights", "gpu-scheduler-policy", "node-scheduler-policy", "numa-alignment")
NOTES = sorted({f"hami.io/{name}" for name in POLICIES}.union(*(vendor.selection.keys() for vendor in CONFIG.vendors)))


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """A pod as the API server may have it: texts and amounts are anybody's."""

    def container() -> dict[str, Any]:
        limits = draw(st.dictionaries(st.sampled_from(NAMES), QUANTITIES, max_size=4))
        made = {"name": draw(st.sampled_from(("a", "b"))), "resources": {"limits": limits}}
        return made | ({"restartPolicy": "Always"} if draw(st.booleans()) else {})

    notes = draw(st.dictionaries(st.sampled_from(NOTES), SENT | QUANTITIES, max_size=4))
    count = draw(st.integers(1, 3))
    return {
        "metadata": {"name": "p", "uid": "u", "namespace": "ns", "annotations": notes},
        "spec": {
            "containers": [container() for _ in range(count)],
            "initContainers": [container()] if draw(st.booleans()) else [],
        },
    }


@given(pod=pods())
def test_a_pod_is_always_read_and_its_request_is_refused_only_by_a_named_error(pod: dict[str, Any]) -> None:
    found = seen.from_object(pod, CONFIG)
    if not found.problem:
        assert parse.pod_request(pod, CONFIG) == found.request
        return
    with pytest.raises(errors.DomainError) as refused:
        parse.pod_request(pod, CONFIG)
    assert str(refused.value) in found.problem


def test_reading_junk_again_and_again_keeps_nothing() -> None:
    def round_of(number: int) -> None:
        for index in range(150):
            junk = f"junk-{number}-{index}-" + "x" * 200
            text = json.dumps([{"id": junk, "devmem": index, "devcore": 1, "count": 1, "type": junk, "health": True}])
            notes = dict.fromkeys(KEYS, text)
            node_seen.from_object({"metadata": {"name": junk, "annotations": notes}}, CONFIG)
            seen.from_object(
                {"metadata": {"name": junk, "annotations": dict.fromkeys(NOTES, junk)}, "spec": {}}, CONFIG
            )
            for decode in CODECS.values():
                with contextlib.suppress(errors.WireError):
                    decode(junk)

    round_of(0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        round_of(1)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 100_000
