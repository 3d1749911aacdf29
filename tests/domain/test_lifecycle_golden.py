"""HAMi's accounting vectors with one pod: filtered once, then only its status changes.

K5 (use falls after each init), K3 (re-run inits) and K2 (sidecars) are decided otherwise here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from hami_platform.domain import devices, lifecycle, requests
from hami_platform.domain.wire import pod_devices
from tests.domain import golden

INIT, SIDECAR, APP = devices.ContainerKind.INIT, devices.ContainerKind.SIDECAR, devices.ContainerKind.APP

DECIDED = {"K5", "K2", "K3"}
H35 = {"accounting-026", "accounting-052"}
"""One of two inits has a status: HAMi releases the other as well."""


def share_rows(spec: Mapping[str, Any], annotation: str) -> tuple[list[devices.Share], list[requests.ContainerRequest]]:
    named = [
        (c["name"], SIDECAR if c.get("restartPolicy") == "Always" else INIT) for c in spec.get("initContainers", [])
    ]
    named += [(c["name"], APP) for c in spec["containers"]]
    rows = pod_devices.align(pod_devices.decode(annotation), len(named))
    assert rows is not None
    found = [
        devices.Share(i, name, kind, row.vendor, row.uuid, row.memory_mib, row.core_percent)
        for i, (name, kind) in enumerate(named)
        for row in rows[i]
    ]
    return found, [requests.ContainerRequest(name, kind) for name, kind in named]


def merged(old: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    base = dict(old) if isinstance(old, dict) else {}
    base |= {key: merged(base.get(key), value) for key, value in patch.items()}
    return {key: value for key, value in base.items() if value is not None}


def single_pod_vectors() -> list[dict[str, Any]]:
    """Vectors of one pod: filtered once, then only its status changes."""
    return [
        vector
        for vector in golden.load("accounting")
        if [step["op"] for step in vector["new"]] == ["filter", *["podUpdate"] * (len(vector["new"]) - 1)]
        and not DECIDED & {vector.get("fault")}
        and vector["id"] not in H35
        and "pods" not in vector
    ]


@pytest.mark.parametrize("vector", single_pod_vectors(), ids=lambda vector: vector["id"])
def test_golden_accounting(vector: dict[str, Any]) -> None:
    first, *updates = vector["new"]
    answer, *expected = vector["expect"]["steps"]
    annotation = answer["annotations"]["hami.io/vgpu-devices-allocated"]
    given_shares, named = share_rows(first["pod"]["spec"], annotation)
    pod = merged(first["pod"], {"spec": {"nodeName": answer["nodeNames"][0]}})
    assert usage(given_shares, named, pod) == one_node(answer["usage"])
    for step, result in zip(updates, expected, strict=True):
        pod = merged(pod, json.loads(json.dumps(step["merge"])))
        assert usage(given_shares, named, pod) == one_node(result["usage"])


def usage(
    given_shares: Sequence[devices.Share], named: Sequence[requests.ContainerRequest], pod: Mapping[str, Any]
) -> dict[str, dict[str, int]]:
    found = lifecycle.held(given_shares, named, lifecycle.facts_of(pod))
    return {uuid: {"cores": h.core_percent, "mem": h.memory_mib, "used": h.slots} for (_, uuid), h in found.items()}


def one_node(expected: Mapping[str, Any]) -> Mapping[str, Any]:
    (found,) = expected.values() or ({},)
    return found
