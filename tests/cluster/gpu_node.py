"""A node with a real kubelet, real containers and our real agent, whose driver is the stub library.

The kubelet keeps its device plugins under /var/lib/kubelet whatever its own root is: one such node a machine.
Must not know: what tests assert. Source of the kubelet's settings: found by running Kubernetes 1.36 on cgroup v1 in a
container without CAP_SYS_RESOURCE.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import yaml

from hami_platform.kube.proto import podresources_pb2, podresources_pb2_grpc
from tests.cluster import access, containers, nodes, platform, processes
from tests.deviceplugin import nvml_stub

ROOT = Path(__file__).resolve().parents[2]
NAME = "real-1"
ADDRESS = "10.99.0.1"
"""On the loopback device, since a kubelet refuses 127.0.0.1 as its node's."""
PLUGINS = Path("/var/lib/kubelet/device-plugins")
TOKEN = "agents-of-the-acceptance-tests"
CARDS = tuple(f"GPU-real-{index}" for index in range(2))
MEMORY_MIB = 40960


class GpuNode:
    """containerd, kubelet and agent. Each can be stopped, killed and started for itself."""

    def __init__(self, folder: Path, binary: Path, served: platform.Platform, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self.logs = folder / "log"
        self.logs.mkdir()
        self._plane = served.plane
        self._platform = served
        self._settings = settings
        self.runtime = containers.Containerd(folder / "containerd", self.logs / "containerd.log")
        self.kubelet = processes.Process("kubelet", self._kubelet_command(binary), log=self.logs / "kubelet.log")
        self._web_port, self.agent_port = processes.free_ports(2)
        self.scenario = folder / "cards.txt"
        self.show_cards()
        self.agent = self._python("agent", ["-m", "deviceplugin"], self._agent_environment())
        self.web = self._python("web", ["manage.py", "serve", "--role", "web"], self._web_environment())

    def start(self) -> None:
        """The node is registered and Ready is up to the kubelet; the agent follows it."""
        subprocess.run(["ip", "addr", "replace", f"{ADDRESS}/32", "dev", "lo"], check=True)
        self.runtime.start()
        self.start_kubelet()
        self.web.start()
        self.start_agent()

    def start_kubelet(self) -> None:
        """Until it says that it is healthy."""
        self.kubelet.start()
        self.kubelet.wait_until(lambda: _healthy(f"http://127.0.0.1:{self._health_port}/healthz"), 60)

    def start_agent(self, **settings: str) -> None:
        """With these settings instead of the usual ones."""
        self.agent = self._python("agent", ["-m", "deviceplugin"], self._agent_environment() | settings)
        self.agent.start()

    def start_agent_for_hami(self) -> None:
        """As HAMi's own plugin works: by annotations, with its rights, on a node without our mark."""
        access.device_plugin(self._plane.kube)
        pair = self._plane.authority.client("hami-plugin", user=access.PLUGIN_USER)
        credentials = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        kubeconfig = self._plane.write_kubeconfig("hami-plugin", credentials)
        self._plane.kube.patch(f"/api/v1/nodes/{NAME}", {"metadata": {"labels": {nodes.AGENT: None}}})
        self.start_agent(HAMI_AGENT_MODE="hami", HAMI_KUBECONFIG=str(kubeconfig))

    def stop(self) -> None:
        """Everything, the kubelet first."""
        for process in (self.agent, self.kubelet, self.web):
            process.stop()
        self.runtime.stop()

    def power_cut(self) -> None:
        """Kubelet, agent and every container are gone at once; what is on disk stays."""
        self.kubelet.kill()
        self.agent.kill()
        self.runtime.kill_containers()

    def boot(self) -> None:
        """After a power cut."""
        self.start_kubelet()
        self.start_agent()

    def show_cards(self, *more: str) -> None:
        """The cards of the stub driver; `more` are further lines of the first."""
        first, *others = (nvml_stub.Gpu(uuid, memory_mib=MEMORY_MIB) for uuid in CARDS)
        nvml_stub.write(self.scenario, nvml_stub.Gpu(first.uuid, memory_mib=MEMORY_MIB, more=more), *others)

    def held(self) -> dict[tuple[str, str], list[str]]:
        """(namespace, pod) → replicas that the kubelet says its containers hold, by its PodResources API."""
        with grpc.insecure_channel(f"unix://{self.folder}/kubelet/pod-resources/kubelet.sock") as channel:
            answer = podresources_pb2_grpc.PodResourcesListerStub(channel).List(
                podresources_pb2.ListPodResourcesRequest(), timeout=10
            )
        return {
            (pod.namespace, pod.name): [
                one for each in pod.containers for held in each.devices for one in held.device_ids
            ]
            for pod in answer.pod_resources
        }

    def registrations(self) -> int:
        """How often the agent has made itself known to a kubelet."""
        return (self.logs / "agent.log").read_text(errors="replace").count("event=registered_with_kubelet")

    def log_tails(self) -> str:
        """The end of each log."""
        return "\n".join(
            f"--- {path.stem}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-25:])
            for path in sorted(self.logs.glob("*.log"))
        )

    # Commands and settings.

    def _python(self, name: str, arguments: list[str], environment: Mapping[str, str]) -> processes.Process:
        command = [sys.executable, *arguments]
        return processes.Process(name, command, log=self.logs / f"{name}.log", environment=environment, directory=ROOT)

    def _agent_environment(self) -> dict[str, str]:
        inherited = {key: value for key, value in self._platform.environment("tool").items() if key[:5] != "HAMI_"}
        token = {"token": access.token(self._plane.kube, "agent")}
        return inherited | {
            **nvml_stub.environ(self.scenario),
            "HAMI_ROLE": "agent",
            "HAMI_NODE_NAME": NAME,
            "HAMI_KUBECONFIG": str(self._plane.write_kubeconfig("agent", token)),
            "HAMI_STATE_DIR": str(self.folder / "agent"),
            "HAMI_HOOK_PATH": str(self.folder / "hook"),
            "HAMI_POD_RESOURCES_SOCKET": str(self.folder / "kubelet" / "pod-resources" / "kubelet.sock"),
            "HAMI_METRICS_BIND": f"127.0.0.1:{self.agent_port}",
            "HAMI_PLATFORM_URL": f"https://127.0.0.1:{self._web_port}",
            "HAMI_PLATFORM_CA_FILE": str(self._plane.authority.certificate),
            "HAMI_INTERNAL_TOKEN": TOKEN,
            **self._settings,
        }

    def _web_environment(self) -> dict[str, str]:
        own = {"HAMI_ROLE": "web", "HAMI_WEB_BIND": f"127.0.0.1:{self._web_port}", "HAMI_INTERNAL_TOKEN": TOKEN}
        return self._platform.environment("tool") | own

    def _kubelet_command(self, binary: Path) -> list[str]:
        root, config = self.folder / "kubelet", self.folder / "kubelet.yaml"
        self._kubelet_port, self._health_port = processes.free_ports(2)
        config.write_text(yaml.safe_dump(self._kubelet_configuration()))
        return [
            str(binary),
            f"--config={config}",
            f"--kubeconfig={self._kubelet_credentials()}",
            f"--hostname-override={NAME}",
            f"--root-dir={root}",
            f"--cert-dir={self.folder / 'pki'}",
            f"--node-ip={ADDRESS}",
            "--node-labels=gpu=on",
            "--v=2",
        ]

    def _kubelet_credentials(self) -> Path:
        user = f"system:node:{NAME}"
        pair = self._plane.authority.client(f"kubelet-{NAME}", user=user, groups=["system:nodes"])
        credentials = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        return self._plane.write_kubeconfig(f"kubelet-{NAME}", credentials)

    def _kubelet_configuration(self) -> dict[str, Any]:
        serving = self._plane.authority.server(f"kubelet-{NAME}-serving", [NAME, ADDRESS])
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{containers.CGROUP}",
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "oomScoreAdj": 0,
            "address": ADDRESS,
            "port": self._kubelet_port,
            "healthzPort": self._health_port,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self._plane.authority.certificate)},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "tlsCertFile": str(serving.certificate),
            "tlsPrivateKeyFile": str(serving.key),
            "resolvConf": "",
            "containerRuntimeEndpoint": f"unix://{self.folder}/containerd/containerd.sock",
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
                "imagefs.available": "0%",
            },
            "podLogsDir": str(self.folder / "pod-logs"),
            "nodeStatusUpdateFrequency": "1s",
            "nodeStatusReportFrequency": "5s",
            "syncFrequency": "10s",
        }


@contextlib.contextmanager
def running(binary: Path, served: platform.Platform, **settings: str) -> Iterator[GpuNode]:
    """The node, with the library that containers get in place; nothing of it is left after the block."""
    with _alone():
        clean()
        folder = Path(tempfile.mkdtemp(prefix=containers.PREFIX, dir="/tmp"))
        _library(folder / "hook" / "vgpu")
        node = GpuNode(folder, binary, served, settings)
        try:
            node.start()
            yield node
        finally:
            node.stop()
            clean()


def clean() -> None:
    """Take away what a node left, also one whose run was killed."""
    containers.sweep()
    subprocess.run(["ip", "addr", "del", f"{ADDRESS}/32", "dev", "lo"], check=False, capture_output=True)
    (PLUGINS / "kubelet_internal_checkpoint").unlink(missing_ok=True)
    shutil.rmtree(PLUGINS.parent / "pod-resources", ignore_errors=True)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Two kubelets would take each other's device plugins away."""
    PLUGINS.mkdir(parents=True, exist_ok=True)
    with (PLUGINS.parent / ".acceptance-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _library(folder: Path) -> None:
    """What stands for HAMi-core: some library, which is mounted, and which nothing loads into a static busybox."""
    folder.mkdir(parents=True)
    shutil.copy(nvml_stub.build() / "libnvidia-ml.so.1", folder / "libvgpu.so")
    (folder / "ld.so.preload").write_text(f"{folder}/libvgpu.so\n")


def _healthy(url: str) -> bool:
    with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - loopback
        return bool(answer.status == 200)
