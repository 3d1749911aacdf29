"""Annotations that only the platform may write, guarded by the API server's own match conditions."""

from __future__ import annotations

import pytest

from tests.cluster import kube, nodes
from tests.cluster.platform import Platform
from tests.cluster.space import Space

OWNED = "hami.io/vgpu-devices-allocated"
FORGED = {OWNED: "GPU-gpu-1-0,NVIDIA,1,1:;"}


def test_pod_with_a_forged_allocation_is_denied(team: Space) -> None:
    with pytest.raises(kube.ApiError, match=OWNED):
        team.create(nodes.pod("forged", nodes.container(gpu=1), annotations=FORGED))


def test_plain_pod_with_a_forged_allocation_is_denied(team: Space) -> None:
    with pytest.raises(kube.ApiError, match=OWNED):
        team.create(nodes.pod("forged", annotations=FORGED))


def test_allocation_of_a_bound_pod_cannot_be_changed(team: Space) -> None:
    team.create(nodes.pod("bound", nodes.container(gpu=1)))
    team.await_bound("bound")
    with pytest.raises(kube.ApiError, match=OWNED):
        team.api.patch(kube.pod_path(team.name, "bound"), {"metadata": {"annotations": FORGED}})


def test_other_updates_do_not_need_the_webhook(platform: Platform, team: Space) -> None:
    team.create(nodes.pod("bound", nodes.container(gpu=1)))
    team.await_bound("bound")
    with platform.without("webhook"):
        team.api.patch(kube.pod_path(team.name, "bound"), {"metadata": {"labels": {"seen": "yes"}}})
    assert team.pod("bound")["metadata"]["labels"]["seen"] == "yes"
