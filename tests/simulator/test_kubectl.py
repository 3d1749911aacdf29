"""A real kubectl against the simulated API server: create, apply, get, describe, label, delete."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hami_platform.simulator import apiserver, kubelet, scheduler
from tests.cluster import binaries
from tests.simulator.equipment import make_pod, wait_for

Kubectl = Callable[..., str]


@pytest.fixture
def api() -> Iterator[apiserver.ApiServer]:
    with apiserver.ApiServer() as server:
        yield server


@pytest.fixture
def kubectl(api: apiserver.ApiServer, tmp_path: Path) -> Kubectl:
    found = binaries.folder() / "kubectl"
    if not found.is_file():
        pytest.skip("no kubectl: run make control-plane once, or set HAMI_E2E_BIN to a folder that holds it")
    config = api.kubeconfig(tmp_path / "kubeconfig")

    def run(*arguments: str, stdin: str = "") -> str:
        command = [str(found), f"--kubeconfig={config}", f"--cache-dir={tmp_path}", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout + done.stderr

    return run


def test_create_apply_get_describe_label_and_delete(kubectl: Kubectl) -> None:
    assert "created" in kubectl("create", "namespace", "team")
    assert "created" in kubectl("create", "quota", "q", "-n", "team", "--hard=limits.nvidia.com/gpumem=20Gi")
    body = json.dumps(make_pod("p", "team"))
    assert "created" in kubectl("apply", "-f", "-", stdin=body)
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=body)
    assert kubectl("get", "pods", "-n", "team", "-o", "wide").split()[:5] == [
        "NAME",
        "READY",
        "STATUS",
        "RESTARTS",
        "AGE",
    ]
    assert "labeled" in kubectl("label", "pod", "p", "-n", "team", "app=x")
    assert kubectl("get", "pods", "-A", "-l", "app=x", "-o", "name").strip() == "pod/p"
    assert "nvidia.com/gpu:  1" in kubectl("describe", "pod", "p", "-n", "team")
    assert "limits.nvidia.com/gpumem" in kubectl("describe", "quota", "-n", "team")
    assert "deleted" in kubectl("delete", "pod", "p", "-n", "team")
    assert "deleted" in kubectl("delete", "namespace", "team")


def test_a_whole_life_is_seen_by_kubectl(kubectl: Kubectl, api: apiserver.ApiServer) -> None:
    with kubelet.Kubelet(api.url, "n1", inventory={"nvidia.com/gpu": 8}), scheduler.Scheduler(api.url):
        kubectl("create", "-f", "-", stdin=json.dumps(make_pod("p", terminationGracePeriodSeconds=5)))
        wait_for(lambda: "Running" in kubectl("get", "pod", "p"), "Running")
        assert "Successfully assigned default/p to n1" in wait_for(lambda: kubectl("events", "--for=pod/p"))
        node = kubectl("describe", "node", "n1")
        assert "nvidia.com/gpu" in node
        assert "Ready            True" in node
        assert "cordoned" in kubectl("cordon", "n1")
        assert "SchedulingDisabled" in kubectl("get", "nodes")
        assert "condition met" in kubectl("wait", "pod/p", "--for=condition=Ready", "--timeout=20s")
        assert "deleted" in kubectl("delete", "pod", "p", "--timeout=20s")


def test_server_side_apply_and_whoami(kubectl: Kubectl) -> None:
    body = json.dumps(make_pod("p"))
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=body)
    assert "simulator-admin" in kubectl("auth", "whoami")
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
