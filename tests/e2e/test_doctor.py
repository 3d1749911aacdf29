"""The doctor on a real control plane: with the worker's rights it finds nothing wrong, and it changes nothing."""

from __future__ import annotations

import json

from tests.cluster.platform import Platform


def test_nothing_is_wrong_with_a_platform_that_works(platform: Platform) -> None:
    before = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in _nodes(platform)}
    done = platform.manage("doctor", "--json", check=False)
    checks = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    wrong = {name: one["text"] for name, one in checks.items() if one["verdict"] == "bad"}
    assert wrong == {}
    assert done.returncode == 0
    for name in ("API server", "server version", "GPU nodes", "database", "Redis", "watcher", "native quotas"):
        assert checks[name]["verdict"] == "good", checks[name]
    assert before == {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in _nodes(platform)}


def _nodes(platform: Platform) -> list[dict[str, dict[str, str]]]:
    """Fake nodes: their kubelet's heartbeat is a lease, so that a changed version is somebody's write."""
    return platform.plane.kube.list("/api/v1/nodes", labelSelector="type=kwok")
