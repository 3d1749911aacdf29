"""Forty pods onto one node: they are allocated one after another, and every bind waits for its turn."""

from __future__ import annotations

import time

import pytest

from tests.cluster import nodes
from tests.perf import serving
from tests.perf.whole_path import ground, load

pytestmark = [pytest.mark.perf, pytest.mark.timeout(600)]

PODS = 40
ONLY = {"bench/pool": "one"}


def test_forty_pods_are_bound_to_one_node_of_sixteen_cards(whole: ground.Ground) -> None:
    ground.nodes_make(whole.api, 1, lambda name: nodes.gpu_node(name, gpus=16, labels=ONLY), prefix="one-")
    whole.platform.start_scheduler()
    where = load.namespace(whole.api, "one-node")
    asks = nodes.container(gpu=1, gpumem=8192, gpucores=10)
    began = time.monotonic()
    load.make(whole.api, where, load.asking(PODS, asks, nodeSelector=ONLY))
    load.await_placed(whole.api, where, within_s=120)
    took = time.monotonic() - began
    events = whole.api.list(f"/api/v1/namespaces/{where}/events")
    failed = [one for one in events if one["reason"] in ("FailedScheduling", "BindingFailed")]
    serving.report(f"{PODS} pods onto one node of 16 cards: all bound in {took:.1f} s, {len(failed)} bind errors")
    assert failed == []
