"""What the demonstration installs: folders, settings, and the command of every process.

Must not know: in which order they start.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import secrets
import shlex
import sys
from dataclasses import dataclass
from typing import Final

from hami_platform.demo import fleet, people, processes
from hami_platform.demo.ports import Ports

BASE: Final = pathlib.Path(__file__).resolve().parents[2]
_LONGEST_SOCKET: Final = 100  # source: Linux, sockaddr_un.sun_path is 108 bytes, with a temporary suffix of gRPC's
# Variables of a real installation must not reach the demonstration.
_FOREIGN: Final = ("KUBECONFIG", "NODE_NAME", "POD_NAME", "POD_NAMESPACE", "HOOK_PATH", "DJANGO_SETTINGS_MODULE")


class Unusable(Exception):
    """The folder or a port cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Installation:
    """One run: its folder, its ports, its secrets. `sockets` has a short path, as Unix sockets need."""

    folder: pathlib.Path
    sockets: pathlib.Path
    ports: Ports
    seed: int
    settings: dict[str, str]

    @property
    def web_url(self) -> str:
        """The console."""
        return f"http://127.0.0.1:{self.ports.web}"

    @property
    def api_url(self) -> str:
        """The simulated API server."""
        return f"http://127.0.0.1:{self.ports.api}"

    @property
    def kubeconfig(self) -> pathlib.Path:
        """For kubectl."""
        return self.folder / "kubeconfig"

    @property
    def links(self) -> pathlib.Path:
        """Where `demo_fill` leaves the secrets of the sign-in links."""
        return self.folder / "links.json"

    @property
    def env_file(self) -> pathlib.Path:
        """Settings for commands typed by hand."""
        return self.folder / "demo.env"

    @property
    def authority(self) -> pathlib.Path:
        """Signs the webhook's certificate."""
        return self.folder / "state" / "tls" / "ca.pem"

    def log(self, name: str) -> pathlib.Path:
        """Of one process."""
        return self.folder / "logs" / f"{name}.log"

    # --- commands -------------------------------------------------------------------------------------------

    def cluster(self) -> processes.Command:
        """API server, scheduler, kubelets. Their state is in memory, so that starting again would not bring it back."""
        where = [str(self.folder), str(self.sockets), str(self.ports.api), str(self.ports.extender)]
        command = self._python("cluster", "tool", "-m", "hami_platform.demo.cluster", *where)
        return dataclasses.replace(command, restarts=False)

    def users(self) -> processes.Command:
        """Who submit pods."""
        return self._python("users", "tool", "-m", "hami_platform.demo.users", self.api_url, str(self.seed))

    def listener(self, role: str) -> processes.Command:
        """What `manage.py serve --role` becomes; started directly, since that loads Django only to leave it again."""
        return self._python(role, role, "-m", "hami_platform.listeners", role)

    def watcher(self) -> processes.Command:
        """`manage.py watch`; the checks would load every page, which it does not need."""
        return self._python("watcher", "watcher", "manage.py", "watch", "--skip-checks")

    def celery(self, role: str) -> processes.Command:
        """`worker` or `beat`."""
        return self._python(role, role, "-m", "celery", "-A", "hami_platform.celery", role, "--loglevel", "warning")

    def agent(self, node: fleet.GpuNode) -> processes.Command:
        """`python -m deviceplugin` of one node."""
        home = self.folder / "nodes" / node.name
        own = {
            "HAMI_NODE_NAME": node.name,
            "HAMI_INVENTORY_FILE": str(home / "inventory.json"),
            "HAMI_KUBELET_DIR": str(self.sockets / node.name),
            "HAMI_STATE_DIR": str(home),
            "HAMI_HOOK_PATH": str(home),
            "HAMI_PLATFORM_URL": self.web_url,
            "HAMI_MEASURE_PERIOD": "10s",
        }
        command = self._python(f"agent-{node.name}", "agent", "-m", "deviceplugin")
        return dataclasses.replace(command, environment={**command.environment, **own})

    def migrate(self) -> processes.Command:
        """Make the tables."""
        return self.once("migrate", "migrate", "--verbosity", "0", "--skip-checks")

    def once(self, name: str, *arguments: str) -> processes.Command:
        """A management command that ends by itself."""
        return dataclasses.replace(self._python(name, "tool", "manage.py", *arguments), lasting=False)

    def _python(self, name: str, role: str, *arguments: str) -> processes.Command:
        environment = {**_inherited(), **self.settings, "HAMI_ROLE": role}
        return processes.Command(name, [sys.executable, *arguments], environment, BASE)


def prepare(folder: pathlib.Path, sockets: pathlib.Path, ports: Ports, seed: int) -> Installation:
    """Make folders and files. Raises Unusable when sockets could not be made there."""
    longest = sockets / max(node.name for node in fleet.NODES) / "nvidia-gpu.sock"
    if len(str(longest)) > _LONGEST_SOCKET:
        raise Unusable(f"{sockets}: too long for sockets; set TMPDIR to a shorter folder")
    made = Installation(folder, sockets, ports, seed, _settings(folder, ports, seed))
    for one in (folder / "state", folder / "logs", sockets):
        one.mkdir(mode=0o700, parents=True, exist_ok=True)
    for node in fleet.NODES:
        home = folder / "nodes" / node.name
        home.mkdir(mode=0o700, parents=True)
        (home / "inventory.json").write_text(json.dumps(node.inventory(), indent=1), encoding="utf-8")
    (folder / "scenario.json").write_text(json.dumps(people.scenario(seed), indent=1), encoding="utf-8")
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in made.settings.items()]
    made.env_file.touch(mode=0o600)
    made.env_file.write_text("".join(lines), encoding="utf-8")
    return made


def _settings(folder: pathlib.Path, ports: Ports, seed: int) -> dict[str, str]:
    """What all processes share. Secrets are new in every run."""
    return {
        "HAMI_DEMO": "true",
        "HAMI_DEMO_SEED": str(seed),
        "HAMI_CLUSTER": "demo",
        "HAMI_STATE_DIR": str(folder / "state"),
        "HAMI_SECRET_KEY": secrets.token_urlsafe(50),
        "HAMI_INTERNAL_TOKEN": secrets.token_urlsafe(32),
        "HAMI_KUBECONFIG": str(folder / "platform.kubeconfig"),
        "HAMI_POD_NAMESPACE": fleet.PLATFORM_NAMESPACE,
        "HAMI_WEB_BIND": f"127.0.0.1:{ports.web}",
        "HAMI_WEBHOOK_BIND": f"127.0.0.1:{ports.webhook}",
        "HAMI_EXTENDER_BIND": f"127.0.0.1:{ports.extender}",
        "HAMI_LISTENER_THREADS": "32",  # one SQLite connection each
    }


def _inherited() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HAMI_") and name not in _FOREIGN}
    return {**kept, "PYTHONPATH": str(BASE), "PYTHONUNBUFFERED": "1"}
