"""AWS Neuron, declared: whole devices, or cores of them. Section `awsneuron` of the device configuration.

Names and meanings: HAMi v2.10.0. It learns the cores of a device from the first node it sees and then holds all nodes
to that; here each node has its own, and a request is split by the two cores that every device has at least.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hami_platform.domain import devices, requests, units
from hami_platform.domain.vendors import base, container, parse, section
from hami_platform.domain.vendors.strategies import neuron

CONFIG_KEY = "awsneuron"
WORD = "AWSNeuron"
CORES = 2
"""Cores that one device of a request for cores gives."""
MOST_CORES = 2 * units.INT32_MAX
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
MOST_DEVICES = 1024
"""More devices than this on one node is nonsense."""
_MOST_PER_DEVICE = 30
"""A mask of more cores does not fit the wire's 32-bit integers."""

TIME, IDS, DONE = "NEURON_ALLOC_TIME", "AWS_NEURON_IDS", "NEURON_ALLOCATED"
RESOURCE, NODE = "NEURON_RESOURCE_TYPE", "aws.amazon.com/predicate-node"


def declare_all(values: Any) -> tuple[base.Vendor, ...]:
    """The vendor of the configuration's section. Raises ConfigError."""
    config = section.section(CONFIG_KEY, values)
    vendor = base.Vendor(
        word=WORD,
        resources=base.Resources(
            count=config.text("resourceCountName", "aws.amazon.com/neuron"),
            cores=config.text("resourceCoreName", "aws.amazon.com/neuroncore"),
        ),
        allocated_key="hami.io/aws-neuron-devices-allocated",
        defaults=base.Defaults(count=0, spelled_percent=0),
        selection=base.Selection(
            use_uuids="aws.amazon.com/use-neuron-uuid", nouse_uuids="aws.amazon.com/nouse-neuron-uuid"
        ),
        most_cores=MOST_CORES,
        strategy=neuron.NEURON,
        decode=_decode,
        rules=_rules,
        read=_read,
        texts=_texts,
        owned_too=(TIME, IDS, DONE, RESOURCE, NODE),
        lock="",
    )
    return (vendor,)


def _decode(vendor: base.Vendor, node: base.NodeSource) -> Sequence[devices.Device]:
    """As many devices as the node has capacity for, with the cores in equal parts, as a mask."""
    count = min(node.capacity.get(vendor.resources.count, 0), MOST_DEVICES)
    if count <= 0:
        return ()
    cores = min(node.capacity.get(vendor.resources.cores, 0) // count, _MOST_PER_DEVICE)
    kind = node.labels.get(INSTANCE_TYPE, "")
    return tuple(
        devices.Device(
            uuid=f"{node.name}-{WORD}-{i}",
            index=i,
            vendor=WORD,
            model=WORD,
            memory_mib=0,
            core_percent=2**cores - 1,
            slots=cores,
            custom=((neuron.TYPE, kind),),
        )
        for i in range(count)
    )


def _rules(vendor: base.Vendor, declared: container.Declared, notes: Mapping[str, str]) -> container.Additions:
    """Nothing is added; what is asked must be possible. Raises RequestError."""
    _read(vendor, declared, notes)
    return container.Additions()


def _read(
    vendor: base.Vendor, declared: container.Declared, _notes: Mapping[str, str]
) -> requests.DeviceRequest | None:
    """Whole devices where a count is given, else as many as the cores need."""
    names = vendor.resources
    cores = parse.integer(declared, names.cores, most=vendor.most_cores)
    if declared.amount(names.count) is not None:
        count = parse.integer(declared, names.count, most=units.INT32_MAX)
        return requests.DeviceRequest(WORD, count, 0, neuron.WHOLE, CORES) if count else None
    if cores > CORES and cores % CORES:
        raise parse.refusal(declared, names.cores, f"must be 1 or a multiple of {CORES}, got {cores}")
    if not cores:
        return None
    return requests.DeviceRequest(WORD, max(1, cores // CORES), 0, None, min(cores, CORES))


def _texts(vendor: base.Vendor, placed: base.Placed) -> Mapping[str, str]:
    """What AWS's plugin reads: indexes of devices, or of cores with the name of their resource."""
    whole = [_is_whole(one) for one in placed.request.containers]
    found = {
        NODE: placed.node,
        TIME: str(placed.at_ns),
        DONE: "false",
        IDS: ",".join(str(one) for one in _ids(placed, whole)),
    }
    by_cores = any(shares and not all_of for shares, all_of in zip(placed.shares, whole, strict=True))
    return found | ({RESOURCE: vendor.resources.cores} if by_cores else {})


def _is_whole(one: requests.ContainerRequest) -> bool:
    return any(ask.vendor == WORD and ask.memory_percent == neuron.WHOLE for ask in one.devices)


def _ids(placed: base.Placed, whole: Sequence[bool]) -> Iterator[int]:
    for shares, all_of in zip(placed.shares, whole, strict=True):
        for share in shares:
            device = placed.devices[share.uuid]
            if all_of:
                yield device.index
                continue
            cores = (bit for bit in range(device.slots) if share.core_percent >> bit & 1)
            yield from (device.slots * device.index + bit for bit in cores)
