"""Metax, declared: whole GPUs, and shares of them (`metax_sgpu`). Names and meanings: HAMi v2.10.0, section
`metax` of device-config.yaml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hami_platform.domain import devices, errors
from hami_platform.domain.vendors import base, metax_sgpu, section
from hami_platform.domain.vendors.strategies import metax_gpu
from hami_platform.domain.wire import fields

CONFIG_KEY = "metax"
GPU = "Metax-GPU"
PREFIX = "metax-tech.com/"
MEMORY_MIB = 65_536
MOST_GPUS = 1024
"""More GPUs than this on one node is nonsense."""


def declare_all(values: Any) -> tuple[base.Vendor, ...]:
    """The vendors of the configuration's section. Raises ConfigError."""
    config = section.section(CONFIG_KEY, values)
    return _gpu(config), metax_sgpu.declare(config)


def _gpu(config: section.Section) -> base.Vendor:
    return base.Vendor(
        word=GPU,
        resources=base.Resources(count=config.text("resourceCountName", "metax-tech.com/gpu")),
        allocated_key="hami.io/metax-gpu-devices-allocated",
        to_allocate_key="hami.io/metax-gpu-devices-to-allocate",
        defaults=base.Defaults(count=0, core_percent=100),
        strategy=metax_gpu.GPU,
        decode=_gpus,
        lock="",
    )


def _gpus(vendor: base.Vendor, node: base.NodeSource) -> Sequence[devices.Device]:
    """As many GPUs as the node has capacity for, each with the node's tables of topology."""
    count = min(node.capacity.get(vendor.resources.count, 0), MOST_GPUS)
    tables = {name: _table(node, name, count) for name in (metax_gpu.LOSSES, metax_gpu.SCORES)}
    custom = tuple((name, text) for name, text in sorted(tables.items()) if text is not None)
    return tuple(
        devices.Device(f"{node.name}-metax-{i}", i, GPU, GPU, MEMORY_MIB, core_percent=100, slots=1, custom=custom)
        for i in range(count)
    )


def _table(node: base.NodeSource, name: str, count: int) -> str | None:
    """The node's points by number of GPUs; what cannot be read has none. None where the node says nothing."""
    text = node.annotations.get(PREFIX + name)
    if text is None:
        return None
    try:
        found = fields.loads(text)
    except errors.WireError:
        found = {}
    points = {str(k): found.get(str(k)) for k in range(1, count + 1)} if isinstance(found, dict) else {}
    return fields.dumps({k: value for k, value in points.items() if type(value) is int})
