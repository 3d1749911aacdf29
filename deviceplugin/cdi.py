"""CDI specifications: what a runtime must add to a container for each device, as JSON.

Pure. Must not know: where files are written, or who asks.
Source: Container Device Interface specification 0.5.0; hooks: NVIDIA Container Toolkit, nvidia-ctk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from deviceplugin import runtime

VERSION = "0.5.0"
ALL = "all"


@dataclass(frozen=True, slots=True)
class DriverFiles:
    """What of the driver a container needs; paths as the container is to see them, below `/`."""

    libraries: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Firmware, and sockets of daemons."""

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders of the libraries."""
        return tuple(dict.fromkeys(str(PurePosixPath(one).parent) for one in self.libraries))


@dataclass(frozen=True, slots=True)
class Host:
    """Where things are on the node. hook: NVIDIA's program for hooks; empty: none."""

    driver_root: str = "/"
    dev_root: str = "/"
    hook: str = "/usr/bin/nvidia-ctk"


def gpus(
    devices: Iterable[tuple[runtime.Named, Sequence[str]]], common: Sequence[str], files: DriverFiles, host: Host
) -> str:
    """The specification of the node's cards and instances, each under all of its names, and of all cards as `all`."""
    listed = list(devices)
    entries = [_entry(name, device.nodes, host) for device, names in listed for name in names]
    every = tuple(dict.fromkeys(node for device, _ in listed for node in device.nodes))
    edits = {
        # Without it NVIDIA's own hook would act on the variable as well.
        "env": [f"{runtime.VISIBLE}=void"],
        "deviceNodes": _nodes(common, host),
        "mounts": [_mount(path, host) for path in (*files.libraries, *files.programs, *files.others)],
        "hooks": _hooks(files, host),
    }
    # A device without edits is an error to runtimes, and makes them refuse the whole file.
    return _text(runtime.CDI_KIND, [*entries, *([_entry(ALL, every, host)] if every else [])], edits)


def imex(channels: Sequence[str], host: Host) -> str:
    """The specification of IMEX channels."""
    entries = [_entry(one, (f"dev/nvidia-caps-imex-channels/channel{one}",), host) for one in channels]
    return _text(f"{runtime.CDI_VENDOR}/imex-channel", entries, {})


def for_all(kind: str, nodes: Sequence[str], host: Host) -> str:
    """The specification of one of runtime.EXTRAS."""
    return _text(f"{runtime.CDI_VENDOR}/{kind}", [_entry(ALL, nodes, host)], {})


def _entry(name: str, nodes: Sequence[str], host: Host) -> dict[str, object]:
    return {"name": name, "containerEdits": {"deviceNodes": _nodes(nodes, host)}}


def _nodes(nodes: Sequence[str], host: Host) -> list[dict[str, str]]:
    root = host.dev_root.rstrip("/")
    return [{"path": f"/{node}", "hostPath": f"{root}/{node}"} for node in nodes]


def _mount(path: str, host: Host) -> dict[str, object]:
    source = f"{host.driver_root.rstrip('/')}{path}"
    return {"hostPath": source, "containerPath": path, "options": ["ro", "nosuid", "nodev", "bind"]}


def _hooks(files: DriverFiles, host: Host) -> list[dict[str, object]]:
    """Links that programs open by name, and the container's linker cache: both must be made inside it."""
    if not host.hook or not files.libraries:
        return []
    links = [argument for link in _links(files.libraries) for argument in ("--link", link)]
    folders = [argument for folder in files.folders for argument in ("--folder", folder)]
    return [_hook(host.hook, "create-symlinks", links), _hook(host.hook, "update-ldcache", folders)]


def _hook(program: str, name: str, arguments: Sequence[str]) -> dict[str, object]:
    """`nvidia-ctk` has its hooks behind a word; `nvidia-cdi-hook` is for nothing else."""
    called = PurePosixPath(program).name
    word = [] if called == "nvidia-cdi-hook" else ["hook"]
    return {"hookName": "createContainer", "path": program, "args": [called, *word, name, *arguments]}


def _links(libraries: Iterable[str]) -> list[str]:
    """`target::link`: the versionless name that the loader asks for. Only libcuda is also opened as `libcuda.so`."""
    links = []
    for one in libraries:
        path = PurePosixPath(one)
        stem = path.name.split(".so.")[0]
        links.append(f"{path.name}::{path.parent}/{stem}.so.1")
        if stem == "libcuda":
            links.append(f"{stem}.so.1::{path.parent}/{stem}.so")
    return links


def _text(kind: str, devices: Sequence[object], edits: dict[str, object]) -> str:
    spec = {"cdiVersion": VERSION, "kind": kind, "devices": list(devices), "containerEdits": edits}
    return json.dumps(spec, indent=1) + "\n"
