"""`python -m hami_platform.simulator` as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hami_platform.simulator import client
from tests.simulator.equipment import Cluster, wait_for

ROOT = Path(__file__).parents[2]


@contextmanager
def simulator(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str, Path]]:
    """The process, its URL, its kubeconfig."""
    command = [sys.executable, "-m", "hami_platform.simulator", *arguments]
    # Short, since a unix socket's path may have 107 characters only; and ours to clear after a kill.
    folder = tempfile.TemporaryDirectory(prefix="t")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HAMI_")}
    environment["TMPDIR"] = folder.name
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline().split() for _ in range(2)]
        assert [line[:1] for line in lines] == [["kubeconfig"], ["ready"]]
        yield process, lines[1][1], Path(lines[0][1])
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()
        folder.cleanup()


def test_it_says_ready_serves_and_ends_with_status_0() -> None:
    with simulator("--nodes", "2", "--cards", "3", "--pods", "1", "--stream") as (process, url, kubeconfig):
        cluster = Cluster(url)
        nodes = cluster.api.get("/api/v1/nodes")["items"]
        assert [item["status"]["allocatable"]["nvidia.com/gpu"] for item in nodes] == ["20", "10"]
        assert len(cluster.api.get("/api/v1/pods")["items"]) >= 1
        cluster.api.close()
        assert json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == url
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert not kubeconfig.exists()


def test_a_webhook_configuration_is_created_at_start(tmp_path: Path) -> None:
    hook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": [],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    file = tmp_path / "hooks.json"
    file.write_text(json.dumps({"metadata": {"name": "hooks"}, "webhooks": [hook]}))
    with simulator("--scenario", "empty", "--webhook-config", str(file)) as (_, url, _):
        cluster = Cluster(url)
        path = client.path_of("mutatingwebhookconfigurations", "", "hooks", group="admissionregistration.k8s.io")
        assert cluster.api.get(path)["webhooks"][0]["failurePolicy"] == "Fail"
        cluster.api.close()


def test_real_agents_register_and_die_with_the_process() -> None:
    with simulator("--nodes", "1", "--cards", "2", "--pods", "0", "--agents") as (process, url, _):
        cluster = Cluster(url)
        wait_for(
            lambda: cluster.api.get("/api/v1/nodes/gpu-0")["status"]["allocatable"].get("nvidia.com/gpu") == "20",
            "shares",
        )
        wait_for(
            lambda: "hami.io/node-nvidia-register" in cluster.api.get("/api/v1/nodes/gpu-0")["metadata"]["annotations"]
        )
        cluster.api.close()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == 1
        process.kill()
        wait_for(lambda: ended(children[0]), "the agent to end")


def ended(pid: str) -> bool:
    """Gone, or a zombie that nobody has collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
