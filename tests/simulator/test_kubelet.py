"""The simulated kubelet: the device plugin protocol over real sockets, and pods walked through their containers."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hami_platform.simulator import apiserver, client, kubelet
from tests.simulator.equipment import Cluster, Obj, make_pod, wait_for
from tests.simulator.toy_plugin import ToyPlugin

NODE = "n1"


@pytest.fixture
def api() -> Iterator[apiserver.ApiServer]:
    with apiserver.ApiServer() as server:
        yield server


@pytest.fixture
def cluster(api: apiserver.ApiServer) -> Iterator[Cluster]:
    made = Cluster(api.url)
    yield made
    made.api.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not tmp_path: a unix socket's path may have 107 characters only.
    with tempfile.TemporaryDirectory(prefix="dp") as path:
        yield Path(path)


def gpu(cluster: Cluster, part: str = "allocatable") -> str | None:
    found: str | None = cluster.api.get(client.path_of("nodes", "", NODE))["status"][part].get("nvidia.com/gpu")
    return found


def bound(cluster: Cluster, name: str, notes: dict[str, str] | None = None, **parts: Any) -> Obj:
    """A pod with spec.nodeName set, as after a Binding."""
    annotations = {f"simulator/{key}": value for key, value in (notes or {}).items()}
    return cluster.create_pod(name, nodeName=NODE, metadata={"annotations": annotations}, **parts)


def container(name: str, gpus: int = 0, **rest: Any) -> Obj:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {"name": name, "image": "fake", "resources": {"limits": limits}, **rest}


def phase(cluster: Cluster, name: str, *wanted: str) -> Obj:
    def there() -> Obj | None:
        found: Obj = cluster.pod(name)
        return found if found["status"]["phase"] in wanted else None

    found = wait_for(there, f"{name} to be {wanted}")
    assert found is not None
    return found


def states(pod: Obj, kind: str = "containerStatuses") -> dict[str, str]:
    return {item["name"]: next(iter(item["state"])) for item in pod["status"].get(kind, [])}


# --- device plugin ------------------------------------------------------------------------------------------


def test_a_plugin_that_registers_shows_its_devices_on_the_node(
    api: apiserver.ApiServer, cluster: Cluster, folder: Path
) -> None:
    with kubelet.Kubelet(api.url, NODE, plugin_dir=folder), ToyPlugin(folder):
        wait_for(lambda: gpu(cluster) == "4", "allocatable 4")


def test_a_sick_device_leaves_capacity_and_lowers_allocatable(
    api: apiserver.ApiServer, cluster: Cluster, folder: Path
) -> None:
    with kubelet.Kubelet(api.url, NODE, plugin_dir=folder), ToyPlugin(folder) as plugin:
        wait_for(lambda: gpu(cluster) == "4", "allocatable 4")
        plugin.make_sick("GPU-1")
        wait_for(lambda: gpu(cluster) == "3", "allocatable 3")
        assert gpu(cluster, "capacity") == "4"


def test_a_plugin_that_goes_leaves_nothing_allocatable(
    api: apiserver.ApiServer, cluster: Cluster, folder: Path
) -> None:
    with kubelet.Kubelet(api.url, NODE, plugin_dir=folder):
        with ToyPlugin(folder):
            wait_for(lambda: gpu(cluster) == "4", "allocatable 4")
        wait_for(lambda: gpu(cluster) == "0", "allocatable 0")
        assert gpu(cluster, "capacity") == "4"


def test_a_kubelet_restart_wipes_the_sockets_and_takes_the_plugin_again(
    api: apiserver.ApiServer, cluster: Cluster, folder: Path
) -> None:
    with kubelet.Kubelet(api.url, NODE, plugin_dir=folder) as node:
        with ToyPlugin(folder):
            wait_for(lambda: gpu(cluster) == "4", "allocatable 4")
            node.restart_plugins()
            assert not (folder / "toy.sock").exists()
        with ToyPlugin(folder, count=2):
            wait_for(lambda: gpu(cluster) == "2", "allocatable 2")


def test_each_container_is_one_allocate_and_inits_come_first(
    api: apiserver.ApiServer, cluster: Cluster, folder: Path
) -> None:
    with kubelet.Kubelet(api.url, NODE, plugin_dir=folder, scale=100), ToyPlugin(folder) as plugin:
        wait_for(lambda: gpu(cluster) == "4", "allocatable 4")
        body = make_pod(
            "p", nodeName=NODE, initContainers=[container("i", 1)], containers=[container("a", 2), container("b", 1)]
        )
        cluster.api.create("/api/v1/namespaces/default/pods", body)
        phase(cluster, "p", "Running")
    calls = [call for call in plugin.calls if call[0] != "GetDevicePluginOptions"]
    # The app takes over what the init container held; only what it lacks is asked for with a preference.
    assert calls == [
        ("GetPreferredAllocation", ()),
        ("Allocate", ("GPU-3",)),
        ("GetPreferredAllocation", ("GPU-3",)),
        ("Allocate", ("GPU-3", "GPU-2")),
        ("GetPreferredAllocation", ()),
        ("Allocate", ("GPU-1",)),
        ("PreStartContainer", ("GPU-3",)),
        ("PreStartContainer", ("GPU-3", "GPU-2")),
        ("PreStartContainer", ("GPU-1",)),
    ]


def test_a_failed_allocate_fails_the_pod_with_the_kubelets_words(
    api: apiserver.ApiServer, cluster: Cluster, folder: Path
) -> None:
    with kubelet.Kubelet(api.url, NODE, plugin_dir=folder), ToyPlugin(folder) as plugin:
        wait_for(lambda: gpu(cluster) == "4", "allocatable 4")
        plugin.fail = "no pod waits for a device"
        bound(cluster, "p")
        status = phase(cluster, "p", "Failed")["status"]
        assert status["reason"] == "UnexpectedAdmissionError"
        assert status["message"] == (
            "Pod was rejected: Allocate failed due to rpc error: code = Internal desc = no pod waits for a device, "
            "which is unexpected"
        )


def test_devices_of_a_pod_that_ended_are_free_again(api: apiserver.ApiServer, cluster: Cluster, folder: Path) -> None:
    with kubelet.Kubelet(api.url, NODE, plugin_dir=folder, scale=100), ToyPlugin(folder, count=1):
        wait_for(lambda: gpu(cluster) == "1", "allocatable 1")
        bound(cluster, "first", {"run-for": "1"}, restartPolicy="Never")
        phase(cluster, "first", "Succeeded")
        bound(cluster, "second")
        phase(cluster, "second", "Running")
        bound(cluster, "third")
        message = phase(cluster, "third", "Failed")["status"]["message"]
        assert "requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0" in message


# --- pods ---------------------------------------------------------------------------------------------------


@pytest.fixture
def plain(api: apiserver.ApiServer) -> Iterator[kubelet.Kubelet]:
    """A node without a plugin; a simulated minute lasts 0.1 s."""
    with kubelet.Kubelet(api.url, NODE, inventory={"nvidia.com/gpu": 8}, scale=600) as node:
        yield node


def test_an_inventory_node_advertises_what_the_scenario_says(plain: kubelet.Kubelet, cluster: Cluster) -> None:
    assert gpu(cluster) == "8"
    plain.set_inventory("nvidia.com/gpu", 0)
    wait_for(lambda: gpu(cluster) == "0", "allocatable 0")


def test_the_node_has_a_lease(plain: kubelet.Kubelet, cluster: Cluster) -> None:
    path = client.path_of("leases", "kube-node-lease", group="coordination.k8s.io")
    (lease,) = wait_for(lambda: cluster.api.get(path)["items"], "a lease")
    assert lease["spec"]["holderIdentity"] == NODE


def test_init_containers_run_one_after_another_then_the_apps(plain: kubelet.Kubelet, cluster: Cluster) -> None:
    seen: list[tuple[Any, ...]] = []
    inits = [container("one"), container("two")]
    path = client.path_of("pods", "default")
    start = cluster.api.get(path)["metadata"]["resourceVersion"]
    body = make_pod("p", nodeName=NODE, initContainers=inits, metadata={"annotations": {"simulator/init-for": "60,30"}})
    cluster.api.create(path, body)
    phase(cluster, "p", "Running")
    watch = cluster.api.watch(path, {"resourceVersion": start})
    for _, obj in watch:
        seen.append((obj["status"]["phase"], *states(obj, "initContainerStatuses").values(), *states(obj).values()))
        if obj["status"]["phase"] == "Running":
            watch.close()
            break
    distinct = [key for key, _ in itertools.groupby(seen)]
    assert distinct == [
        ("Pending",),
        ("Pending", "waiting", "waiting", "waiting"),
        ("Pending", "running", "waiting", "waiting"),
        ("Pending", "terminated", "running", "waiting"),
        ("Running", "terminated", "terminated", "running"),
    ]


def test_a_finished_init_container_reports_exit_0_and_completed(plain: kubelet.Kubelet, cluster: Cluster) -> None:
    bound(cluster, "p", initContainers=[container("i")])
    (status,) = phase(cluster, "p", "Running")["status"]["initContainerStatuses"]
    ended = status["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], status["ready"]) == (0, "Completed", True)


def test_a_sidecar_starts_before_the_next_init_and_stays(plain: kubelet.Kubelet, cluster: Cluster) -> None:
    inits = [container("side", restartPolicy="Always"), container("i")]
    bound(cluster, "p", initContainers=inits)
    pod = phase(cluster, "p", "Running")
    assert states(pod, "initContainerStatuses") == {"side": "running", "i": "terminated"}


@pytest.mark.parametrize("code, ends", [(0, "Succeeded"), (3, "Failed")])
def test_a_job_pod_ends_by_its_exit_code(plain: kubelet.Kubelet, cluster: Cluster, code: int, ends: str) -> None:
    bound(cluster, "p", {"run-for": "60", "exit-code": str(code)}, restartPolicy="Never")
    pod = phase(cluster, "p", "Succeeded", "Failed")
    assert pod["status"]["phase"] == ends
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code


def test_a_failing_app_is_restarted_and_counted(plain: kubelet.Kubelet, cluster: Cluster) -> None:
    bound(cluster, "p", {"run-for": "60", "exit-code": "1"})
    pod = wait_for(
        lambda: (
            (found := cluster.pod("p"))["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) >= 2
            and found
        )
    )
    assert pod["status"]["phase"] == "Running"
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


def test_an_init_container_that_fails_for_good_fails_the_pod(plain: kubelet.Kubelet, cluster: Cluster) -> None:
    bound(cluster, "p", {"init-exit-code": "2"}, restartPolicy="Never", initContainers=[container("i")])
    pod = phase(cluster, "p", "Failed")
    assert states(pod) == {"c": "waiting"}


def test_a_rebuilt_sandbox_shows_the_init_container_running_again(plain: kubelet.Kubelet, cluster: Cluster) -> None:
    bound(cluster, "p", {"init-for": "600"}, initContainers=[container("i")])
    phase(cluster, "p", "Running")
    plain.rebuild_sandbox("default", "p")
    pod = wait_for(
        lambda: states(found := cluster.pod("p"), "initContainerStatuses")["i"] == "running" and found, "the init again"
    )
    assert pod["status"]["phase"] == "Pending"  # type: ignore[index]
    assert pod["status"]["initContainerStatuses"][0]["restartCount"] == 1  # type: ignore[index]
    phase(cluster, "p", "Running")


def test_a_deleted_pod_stays_until_its_containers_have_ended(plain: kubelet.Kubelet, cluster: Cluster) -> None:
    bound(cluster, "p", {"stop-for": "300"}, terminationGracePeriodSeconds=30)
    phase(cluster, "p", "Running")
    answer = cluster.api.delete(client.path_of("pods", "default", "p"))
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 30
    assert cluster.pod("p")["metadata"]["deletionTimestamp"]
    wait_for(lambda: not cluster.api.get("/api/v1/namespaces/default/pods")["items"], "the pod to be gone")


def test_a_manual_pod_is_left_to_the_test(plain: kubelet.Kubelet, cluster: Cluster) -> None:
    bound(cluster, "manual", {"manual": "true"})
    bound(cluster, "other")
    phase(cluster, "other", "Running")
    assert "containerStatuses" not in cluster.pod("manual")["status"]
