"""The device nodes of NVIDIA's driver on this host: of all cards, of one card, and of a MIG instance.

Must not know: containers, CDI. Source of the names: NVIDIA driver documentation, "Device nodes" and, for MIG, the
capability files below /proc/driver/nvidia (Multi-Instance GPU user guide).
"""

from __future__ import annotations

import re
from pathlib import Path

from deviceplugin import inventory, runtime

CONTROL = ("dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia-uvm-tools", "dev/nvidia-modeset")
CAPABILITIES = Path("/proc/driver/nvidia/capabilities")

_MINOR = re.compile(r"^DeviceFileMinor:\s*(\d+)", re.MULTILINE)


class UnknownNodeError(Exception):
    """A device's node cannot be told: the container would not reach it."""


class DeviceNodes:
    """root: where this process sees the host's folder above `dev/`."""

    def __init__(self, root: Path = Path("/"), capabilities: Path = CAPABILITIES) -> None:
        self._root = root
        self._capabilities = capabilities

    def common(self) -> tuple[str, ...]:
        """Nodes that every container needs, those that there are."""
        return tuple(name for name in CONTROL if (self._root / name).exists())

    def card(self, card: inventory.Card) -> runtime.Named:
        """A whole card. Raises UnknownNodeError."""
        if card.minor is None:
            raise UnknownNodeError(f"the driver does not tell the minor number of card {card.uuid}")
        return runtime.Named(card.uuid, card.label, (f"dev/nvidia{card.minor}",))

    def partition(self, card: inventory.Card, one: inventory.MigInstance) -> runtime.Named:
        """A MIG instance: its card's node, and those that give the right to it. Raises UnknownNodeError."""
        whole = self.card(card)
        folder = self._capabilities / f"gpu{card.minor}" / "mig" / f"gi{one.gpu_instance_id}"
        rights = (folder / "access", folder / f"ci{one.compute_instance_id}" / "access")
        nodes = tuple(f"dev/nvidia-caps/nvidia-cap{_minor(path)}" for path in rights)
        return runtime.Named(one.uuid, nodes=(*whole.nodes, *nodes))


def _minor(path: Path) -> str:
    try:
        found = _MINOR.search(path.read_text())
    except OSError as error:
        raise UnknownNodeError(f"{path}: {error.strerror}") from error
    if found is None:
        raise UnknownNodeError(f"{path} names no minor number")
    return found[1]
