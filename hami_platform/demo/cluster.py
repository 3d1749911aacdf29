"""The simulated cluster as a process: API server, scheduler, a kubelet for each node, what containers use.

`python -m hami_platform.demo.cluster FOLDER SOCKETS API_PORT EXTENDER_PORT`. When the API
server answers it writes FOLDER/platform.kubeconfig, and FOLDER/kubeconfig for people. Its state is in memory and ends
with it. Must not know: the platform.
"""

from __future__ import annotations

import contextlib
import pathlib
import signal
import sys
import threading

from hami_platform.demo import fleet, library
from hami_platform.simulator import apiserver, kubelet, scheduler
from hami_platform.simulator.scheduling import extender

# What kube-scheduler is configured with in a real installation (docs/architecture.md).
_MANAGED = frozenset({"nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"})
# The platform's own account: it may write what pods' users may not.
PLATFORM = f"system:serviceaccount:{fleet.PLATFORM_NAMESPACE}:platform"
PLATFORM_GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{fleet.PLATFORM_NAMESPACE}")


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM."""
    folder, sockets = pathlib.Path(arguments[0]), pathlib.Path(arguments[1])
    api_port, extender_port = int(arguments[2]), int(arguments[3])
    over = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: over.set())
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(apiserver.ApiServer(port=api_port))
        token = api.token(PLATFORM, *PLATFORM_GROUPS)
        api.kubeconfig(folder / "platform.kubeconfig", token=token)
        api.kubeconfig(folder / "kubeconfig.new").replace(folder / "kubeconfig")
        for number, node in enumerate(fleet.NODES, start=1):
            stack.enter_context(_kubelet(api.url, node, sockets, number))
        stack.enter_context(scheduler.Scheduler(api.url, extender_config=_extender(extender_port)))
        stack.enter_context(library.Library(api.url, folder / "nodes"))
        over.wait()
    return 0


def _kubelet(url: str, node: fleet.GpuNode, sockets: pathlib.Path, number: int) -> kubelet.Kubelet:
    labels = {"node.kubernetes.io/instance-type": node.model.replace(" ", "-").lower()}
    return kubelet.Kubelet(
        url,
        node.name,
        plugin_dir=sockets / node.name,
        node={"labels": labels},
        ip=f"10.0.0.{number}",
        scale=fleet.TIMES,
    )


def _extender(port: int) -> extender.ExtenderConfig:
    return extender.ExtenderConfig(f"http://127.0.0.1:{port}", managed_resources=_MANAGED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
