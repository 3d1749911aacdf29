"""`python -m hami_platform.simulator`: a simulated cluster as one process, to try things on with kubectl or in tests.

It prints `ready URL` once everything is up, and serves until SIGTERM or SIGINT. Knows nothing of the platform: the
extender and webhook it is given may be any.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import threading
from pathlib import Path

import msgspec

from hami_platform.simulator import apiserver, client, crowd, kubelet, processes, scenarios, scheduler
from hami_platform.simulator.scheduling import extender

MANAGED = ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores")


def arguments(given: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m hami_platform.simulator", description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="of the API server; 0: any free one")
    parser.add_argument("--kubeconfig", type=Path, help="where to write it; default: in a temporary folder")
    parser.add_argument("--scenario", default="seeded", help="`seeded`, `empty`, or a JSON file")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--nodes", type=int, default=6, help="of the seeded scenario")
    parser.add_argument("--cards", type=int, default=40, help="of the seeded scenario, over all nodes")
    parser.add_argument("--pods", type=int, default=60, help="of the seeded scenario that stay")
    parser.add_argument("--stream", action="store_true", help="keep pods coming and going")
    parser.add_argument("--clock-scale", type=float, default=60.0, help="simulated seconds in a real one, for pods")
    parser.add_argument("--webhook-config", type=Path, help="JSON of a MutatingWebhookConfiguration to create")
    parser.add_argument("--extender-url", default="", help="without it the scheduler counts devices itself")
    parser.add_argument("--extender-ca", type=Path, help="PEM to trust for an https extender")
    parser.add_argument("--managed-resource", action="append", help=f"of the extender; default: {', '.join(MANAGED)}")
    parser.add_argument("--whole-nodes", action="store_true", help="nodeCacheCapable: false")
    parser.add_argument("--agents", action="store_true", help="a real node agent beside each kubelet")
    parser.add_argument("--die-with-parent", action="store_true", help="be killed when the parent ends")
    return parser.parse_args(given)


def chosen(options: argparse.Namespace) -> scenarios.Scenario:
    """The scenario that was asked for."""
    if options.scenario == "empty":
        return scenarios.Scenario(options.seed, (), ())
    if options.scenario == "seeded":
        return scenarios.seeded(options.seed, nodes=options.nodes, cards=options.cards, pods=options.pods)
    return scenarios.read(Path(options.scenario))


def _extender(options: argparse.Namespace) -> extender.ExtenderConfig | None:
    if not options.extender_url:
        return None
    return extender.ExtenderConfig(
        options.extender_url,
        node_cache_capable=not options.whole_nodes,
        managed_resources=frozenset(options.managed_resource or MANAGED),
        ca_pem=options.extender_ca.read_bytes() if options.extender_ca else None,
    )


def _kubelet(url: str, node: scenarios.Node, number: int, scale: float, sockets: Path | None) -> kubelet.Kubelet:
    """With a folder for sockets a plugin gives the devices, else the scenario does."""
    address = f"10.0.{number // 250}.{number % 250 + 1}"
    if sockets is not None:
        return kubelet.Kubelet(
            url, node.name, plugin_dir=sockets / node.name, node={"labels": node.labels}, ip=address, scale=scale
        )
    inventory = {scenarios.RESOURCE: node.shares}
    return kubelet.Kubelet(url, node.name, inventory=inventory, node=node.as_registered(), ip=address, scale=scale)


def _agent(node: scenarios.Node, folder: Path, kubeconfig: Path) -> processes.Child:
    environment = scenarios.agent_environment(
        node, home=folder / "nodes" / node.name, sockets=folder / "s", kubeconfig=kubeconfig
    )
    return processes.Child([sys.executable, "-m", "deviceplugin"], environment)


def run(options: argparse.Namespace, folder: Path, over: threading.Event, stack: contextlib.ExitStack) -> None:
    """Bring everything up, say so, and wait."""
    scenario = chosen(options)
    api = stack.enter_context(apiserver.ApiServer(options.port))
    kubeconfig = api.kubeconfig(options.kubeconfig or folder / "kubeconfig")
    sockets = folder / "s" if options.agents else None
    for number, node in enumerate(scenario.nodes):
        stack.enter_context(_kubelet(api.url, node, number, options.clock_scale, sockets))
        if options.agents:
            stack.callback(_agent(node, folder, kubeconfig).stop)
    if options.webhook_config:
        body = msgspec.json.decode(options.webhook_config.read_bytes())
        path = client.path_of("mutatingwebhookconfigurations", group="admissionregistration.k8s.io")
        client.Client(api.url).create(path, body)
    stack.enter_context(scheduler.Scheduler(api.url, extender_config=_extender(options)))
    users = crowd.Crowd(api.url, scenario, scale=options.clock_scale)
    stack.callback(users.stop)
    users.found()
    if options.stream:
        users.start()
    sys.stdout.write(f"kubeconfig {kubeconfig}\nready {api.url}\n")
    sys.stdout.flush()
    over.wait()


def main(given: list[str]) -> int:
    """Serve until a signal."""
    options = arguments(given)
    if options.die_with_parent:
        processes.die_with_parent()
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    # A short prefix: a unix socket's path may have 107 characters only.
    with tempfile.TemporaryDirectory(prefix="sim") as folder, contextlib.ExitStack() as stack:
        run(options, Path(folder), over, stack)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
