"""Writes the node's CDI specifications, and only when they differ from what is there.

Must not know: what is in a specification, or who refers to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deviceplugin import cdi, devnodes, inventory, runtime
from hami_platform import logs

GPUS = f"{runtime.CDI_VENDOR}-gpu.json"
EXTRA_NODES = {
    "gdrcopy": ("dev/gdrdrv",),
    "gds": ("dev/nvidia-fs*",),
    "mofed": ("dev/infiniband/uverbs*", "dev/infiniband/rdma_cm"),
}
"""Device nodes of the extras. Source: NVIDIA Container Toolkit, modes gdrcopy, gds and mofed."""

log = logs.get(__name__)


class SpecError(Exception):
    """The folder cannot be written, or what is to be specified is missing: no container could be given a device."""


@dataclass(frozen=True, slots=True)
class Plan:
    """folder: where specifications go, as this process sees it."""

    folder: Path
    files: cdi.DriverFiles
    host: cdi.Host


class Specs:
    """The specifications of one node. inside: where this process sees the host's folder above `dev/`."""

    def __init__(
        self, plan: Plan, handing: runtime.Handing, nodes: devnodes.DeviceNodes, inside: Path = Path("/")
    ) -> None:
        self._folder = plan.folder
        self._handing = handing
        self._nodes = nodes
        self._files = plan.files
        self._host = plan.host
        self._inside = inside

    def write(self, cards: Sequence[inventory.Card]) -> None:
        """Bring the files up to these cards. Raises SpecError."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._replace(GPUS, cdi.gpus(self._devices(cards), self._nodes.common(), self._files, self._host))
            for kind in self._handing.extras:
                self._replace(f"{runtime.CDI_VENDOR}-{kind}.json", cdi.for_all(kind, self._found(kind), self._host))
            if self._handing.imex:
                self._replace(f"{runtime.CDI_VENDOR}-imex-channel.json", cdi.imex(self._handing.imex, self._host))
        except OSError as error:
            raise SpecError(f"{error.filename}: {error.strerror}") from error

    def _found(self, kind: str) -> list[str]:
        paths = [path for pattern in EXTRA_NODES[kind] for path in sorted(self._inside.glob(pattern))]
        if not paths:
            raise SpecError(f"{kind} is enabled, and this node has none of {', '.join(EXTRA_NODES[kind])}")
        return [str(path.relative_to(self._inside)) for path in paths]

    def _devices(self, cards: Sequence[inventory.Card]) -> list[tuple[runtime.Named, list[str]]]:
        """Cards and instances with their names. One whose node is unknown is left out: it cannot be given."""
        found = []
        for look in (look for card in cards for look in self._looks(card)):
            try:
                named = look()
            except devnodes.UnknownNodeError as error:
                log.warning("device_without_specification", error=str(error))
            else:
                found.append((named, [name for name in (named.uuid, named.label) if name]))
        return found

    def _looks(self, card: inventory.Card) -> list[Callable[[], runtime.Named]]:
        if card.mode != inventory.MIG:
            return [functools.partial(self._nodes.card, card)]
        return [functools.partial(self._nodes.partition, card, one.instance) for one in card.partitions]

    def _replace(self, name: str, text: str) -> None:
        path = self._folder / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            return
        draft = path.with_name(f".{name}.new")  # runtimes read every *.json of the folder
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
        log.info("specification_written", path=str(path))
