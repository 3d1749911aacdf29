"""Clients that are not the simulator's own: the official Python package, and the platform's list-watch under faults."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes
import pytest

from hami_platform.kube import calls, client, listwatch
from hami_platform.simulator import apiserver
from hami_platform.simulator.api import registry
from tests.simulator.equipment import Cluster, make_node, make_pod, wait_for


@pytest.fixture
def api() -> Iterator[apiserver.ApiServer]:
    with apiserver.ApiServer() as server:
        yield server


@pytest.fixture
def official(api: apiserver.ApiServer, tmp_path: Path) -> Iterator[Any]:
    made = kubernetes.config.new_client_from_config(str(api.kubeconfig(tmp_path / "kubeconfig")))
    with made:
        yield kubernetes.client.CoreV1Api(made)


def test_the_official_client_creates_reads_patches_and_deletes(official: Any) -> None:
    official.create_node(make_node("n1"))
    official.create_namespaced_pod("default", make_pod("p"))
    (pod,) = official.list_pod_for_all_namespaces(label_selector="!x", field_selector="metadata.name=p").items
    assert (pod.status.phase, pod.spec.scheduler_name) == ("Pending", "default-scheduler")
    patched = official.patch_namespaced_pod("p", "default", {"metadata": {"labels": {"a": "b"}}})
    assert patched.metadata.labels == {"a": "b"}
    official.delete_namespaced_pod("p", "default")
    with pytest.raises(kubernetes.client.ApiException, match='pods \\\\"p\\\\" not found'):
        official.read_namespaced_pod("p", "default")


def test_the_official_client_reads_what_no_kubelet_has_touched(official: Any) -> None:
    gated = make_pod("gated", schedulingGates=[{"name": "a.io/b"}])
    conditions = official.create_namespaced_pod("default", gated).status.conditions
    assert [(item.type, item.reason) for item in conditions] == [("PodScheduled", "SchedulingGated")]


def test_the_official_watch_sees_a_life(official: Any) -> None:
    watch = kubernetes.watch.Watch()
    official.create_namespaced_pod("default", make_pod("p"))
    official.delete_namespaced_pod("p", "default")
    revision = "1"
    kinds = [
        event["type"]
        for event in watch.stream(official.list_namespaced_pod, "default", resource_version=revision, timeout_seconds=1)
    ]
    assert kinds == ["ADDED", "DELETED"]


def test_our_list_watch_ends_where_the_server_is_whatever_breaks(api: apiserver.ApiServer, tmp_path: Path) -> None:
    """Cuts, compactions, errors and outages while pods change: the fold of all batches equals the store."""
    kube = client.KubeClient(client.Config(kubeconfig=str(api.kubeconfig(tmp_path / "kubeconfig"))))
    timing = listwatch.Timing(page=3, first_wait_s=0.01, longest_wait_s=0.05)
    reflector = listwatch.Reflector(kube, calls.pods(), timing)
    seen: dict[str, str] = {}
    follower = threading.Thread(target=fold, args=(reflector, seen))
    follower.start()
    storm(api, random.Random(7))
    api.fault.lift()
    _, stored = api.store.objects(registry.PODS)
    expected = {item.key[1]: str(item.revision) for item in stored}
    wait_for(lambda: seen == expected, "the same pods at the same revisions")
    reflector.stop()
    follower.join(10)
    kube.close()
    assert not follower.is_alive()


def fold(reflector: listwatch.Reflector[Any], seen: dict[str, str]) -> None:
    """What the watcher process does with batches, in short: name -> revision."""
    for batch in reflector.batches():
        if isinstance(batch, listwatch.Listed):
            seen.clear()
            seen.update({item.metadata.name: item.metadata.resource_version for item in batch.items})
        elif isinstance(batch, listwatch.Changed):
            for event in batch.events:
                meta = event.object.metadata
                if event.deleted:
                    seen.pop(meta.name, None)
                else:
                    seen[meta.name] = meta.resource_version


def storm(api: apiserver.ApiServer, dice: random.Random) -> None:
    """Pods come, change and go while the server misbehaves towards readers."""
    cluster = Cluster(api.url)
    faults = (
        api.fault.cut_watches,
        api.fault.compact,
        lambda: api.fault.fail("/api/v1/pods$", method="GET", status=500),
        lambda: api.fault.hang_up("/api/v1/pods$", method="GET"),
        lambda: api.fault.fail("/api/v1/pods$", method="GET", status=410),
    )
    alive: list[str] = []
    for number in range(300):
        if alive and dice.random() < 0.4:
            cluster.api.delete(f"/api/v1/namespaces/default/pods/{alive.pop(dice.randrange(len(alive)))}")
        else:
            alive.append(cluster.create_pod(f"p{number}")["metadata"]["name"])
        if alive and dice.random() < 0.5:
            path = f"/api/v1/namespaces/default/pods/{dice.choice(alive)}"
            cluster.api.patch(path, {"metadata": {"labels": {"n": str(number)}}})
        if dice.random() < 0.2:
            dice.choice(faults)()
    cluster.api.close()
