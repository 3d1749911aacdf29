"""Law 1 for every format: decode(encode(x)) = x, and decode raises only WireError on any text."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import devices, errors, lifecycle, requests
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
from tests import strategies

Decoder = Callable[[str], object]

DECODERS: dict[str, Decoder] = {
    "pod_devices": pod_devices.decode,
    "node_register": lambda text: node_register.decode(text, vendor="NVIDIA"),
    "pair_scores": pair_scores.decode,
    "mig_allocations": mig_allocations.decode,
    "node_lock": node_lock.decode,
    "weights": weights.decode,
    "handshake": handshake.decode,
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("id", "uuid", "score", "index", "placement", "gpuUUID", "profile", "migProfiles", "x")),
            inner,
        )
    ),
    max_leaves=8,
).map(json.dumps)

NEARLY = st.text('GPU-a,NVIDIA:;0123456789=slotcrememory TZ+_.[]{}"', max_size=60)


@pytest.mark.parametrize("name", DECODERS)
@given(text=st.text() | NEARLY | JSON)
def test_law_1_decode_raises_only_wire_errors(name: str, text: str) -> None:
    with contextlib.suppress(errors.WireError):
        DECODERS[name](text)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5000, "[NaN]", "\ud800", "[" + "1" * 5000 + "]", "\x00"])
def test_law_1_hostile_texts(name: str, text: str) -> None:
    with contextlib.suppress(errors.WireError):
        DECODERS[name](text)


@given(strategies.rows())
def test_law_1_pod_devices(rows: pod_devices.Rows) -> None:
    assert pod_devices.decode(pod_devices.encode(rows)) == rows


@given(strategies.registered())
def test_law_1_node_register_json(found: tuple[devices.Device, ...]) -> None:
    assert node_register.decode(node_register.encode(found), vendor="NVIDIA") == found


@given(strategies.registered())
def test_law_1_node_register_text(found: tuple[devices.Device, ...]) -> None:
    plain = tuple(devices.Device(**_without_mig(device)) for device in found)
    text = node_register.encode_text(plain) or ":"
    assert node_register.decode(text, vendor="NVIDIA") == plain


def _without_mig(device: devices.Device) -> dict[str, Any]:
    names = ("uuid", "index", "vendor", "model", "memory_mib", "core_percent", "slots", "numa", "mode", "healthy")
    return {name: getattr(device, name) for name in names}


NAME = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=4)  # type: ignore[arg-type]


@given(st.dictionaries(st.tuples(NAME, NAME), strategies.SIGNED_INT32, max_size=6))
def test_law_1_pair_scores(scores: dict[tuple[str, str], int]) -> None:
    assert pair_scores.decode(pair_scores.encode(scores)) == scores


@given(strategies.mig_reservations())
def test_law_1_mig_allocations(found: tuple[mig_allocations.Allocation, ...]) -> None:
    assert mig_allocations.decode(mig_allocations.encode(found)) == found


@given(strategies.locks())
def test_law_1_node_lock(lock: node_lock.NodeLock) -> None:
    assert node_lock.decode(node_lock.encode(lock)) == lock


@given(strategies.weights())
def test_law_1_weights(found: requests.Weights) -> None:
    assert weights.decode(weights.encode(found)) == found


@given(st.datetimes().map(lambda at: at.replace(microsecond=0)))
def test_law_1_handshake(at: datetime) -> None:
    assert handshake.decode(handshake.encode(at)) == handshake.Handshake(requesting=True, requested_at=at)


@given(strategies.pod_requests())
def test_law_1_pod_request(request: requests.PodRequest) -> None:
    stored = json.loads(json.dumps(pod_request.encode(request)))
    assert pod_request.decode(stored) == request


@given(strategies.pod_facts())
def test_law_1_pod_facts(facts: lifecycle.PodFacts) -> None:
    assert pod_facts.decode(json.loads(json.dumps(pod_facts.encode(facts)))) == facts


@given(st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_law_1_pod_request_refuses_other_json(value: object) -> None:
    with pytest.raises(errors.WireError):
        pod_request.decode(value)  # type: ignore[arg-type]
    with pytest.raises(errors.WireError):
        pod_request.decode({"containers": [value]})
