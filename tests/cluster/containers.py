"""containerd for one node of a test: started, emptied, and taken away with all that its containers left on the machine.

A container's shim outlives its containerd, and a kubelet starts again what ends: so whoever stops both stops the
kubelet first. Must not know: Kubernetes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.cluster import images, processes

PREFIX = "hami-node-"
"""Folders of nodes under /tmp begin so; sockets need short paths."""
CGROUP = "hami-e2e"
BRIDGE = "hamie2e0"
PROGRAMS = ("containerd", "ctr", "runc", "ip", "busybox")
_CGROUPS = Path("/sys/fs/cgroup")
_NAMESPACE = "k8s.io"

_CONFIG = """\
version = 2
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Without CAP_SYS_RESOURCE nobody may lower oom_score_adj, and every sandbox would fail.
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""
_NETWORK = """\
{{"cniVersion": "0.4.0", "name": "test", "plugins": [{{"type": "bridge", "bridge": "{bridge}", "isGateway": true,
 "ipMasq": false, "ipam": {{"type": "host-local", "dataDir": "{folder}/ipam",
 "ranges": [[{{"subnet": "10.88.0.0/24"}}]]}}}}]}}
"""


class Containerd:
    """One containerd under `folder`."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.folder = folder
        (folder / "cni").mkdir(parents=True)
        self.config = folder / "config.toml"
        self.config.write_text(_CONFIG.format(folder=folder, pause=images.PAUSE))
        (folder / "cni" / "10-test.conflist").write_text(_NETWORK.format(bridge=BRIDGE, folder=folder))
        self.socket = folder / "containerd.sock"
        self.process = processes.Process("containerd", ["containerd", "-c", str(self.config)], log=log)

    def start(self) -> None:
        """Serve, with the images imported."""
        _make_cgroups()
        self.process.start()
        self.process.wait_until(lambda: self.ctr("version", check=False).returncode == 0, 30)
        archive = self.folder / "images.tar"
        images.write(archive)
        self.ctr("image", "import", str(archive))

    def kill_containers(self) -> None:
        """Every container dies at once, sandboxes too, as in a power cut."""
        for task in self._listed("task", "ls", "-q"):
            self.ctr("task", "kill", "-s", "KILL", task, check=False)

    def stop(self) -> None:
        """No container, no containerd."""
        if self.process.alive():
            self.kill_containers()
            for task in self._listed("task", "ls", "-q"):
                self.ctr("task", "delete", "-f", task, check=False)
            for container in self._listed("container", "ls", "-q"):
                self.ctr("container", "delete", container, check=False)
            self.process.stop()

    def ctr(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """containerd's own client."""
        command = ["ctr", "-a", str(self.socket), "-n", _NAMESPACE, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=check)

    def _listed(self, *arguments: str) -> list[str]:
        return self.ctr(*arguments, check=False).stdout.split()


def missing() -> list[str]:
    """What a node with real containers needs and this machine lacks."""
    lacks = [name for name in PROGRAMS if shutil.which(name) is None]
    lacks += [] if Path("/usr/lib/cni/bridge").exists() else ["containernetworking-plugins"]
    return lacks + ([] if os.geteuid() == 0 else ["root"])


def sweep() -> None:
    """Take away what a node's containers leave on the machine, also those of a run that was killed."""
    for pid in _left():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for mount in _mounts():
        _quietly("umount", "-l", mount)
    for root in _CGROUPS.glob(f"*/{CGROUP}"):
        _quietly("find", str(root), "-depth", "-type", "d", "-exec", "rmdir", "{}", ";")
    _quietly("ip", "link", "del", BRIDGE)
    for folder in Path("/tmp").glob(f"{PREFIX}*"):
        shutil.rmtree(folder, ignore_errors=True)


def left_behind() -> list[str]:
    """What is still on the machine after `sweep`, for people."""
    bridge = Path("/sys/class/net", BRIDGE)
    found = [f"process {pid}" for pid in _left()] + [f"mount {mount}" for mount in _mounts()]
    return found + [str(root) for root in _CGROUPS.glob(f"*/{CGROUP}")] + ([str(bridge)] if bridge.exists() else [])


def _quietly(*command: str) -> None:
    """What is not there need not be taken away."""
    subprocess.run(command, check=False, capture_output=True)


def _left() -> list[int]:
    """Processes in the node's control group, and the shims that watch them."""
    grouped = {int(pid) for path in _CGROUPS.glob(f"*/{CGROUP}/**/cgroup.procs") for pid in path.read_text().split()}
    return sorted(grouped | set(_shims()))


def _shims() -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if words[0].endswith(b"containerd-shim-runc-v2") and any(PREFIX.encode() in word for word in words):
                yield int(path.parent.name)


def _mounts() -> list[str]:
    """Deepest first."""
    lines = Path("/proc/mounts").read_text().splitlines()
    return sorted((line.split()[1] for line in lines if f"/tmp/{PREFIX}" in line), key=len, reverse=True)


def _make_cgroups() -> None:
    """The kubelet wants its root to be there under every controller, and a cpuset to name its CPUs."""
    for controller in _CGROUPS.iterdir():
        if controller.name == "unified" or not controller.is_dir():
            continue
        root = controller / CGROUP
        root.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (controller / name).exists():
                (root / name).write_text((controller / name).read_text())
