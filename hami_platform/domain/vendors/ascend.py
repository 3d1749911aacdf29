"""Huawei Ascend NPUs, declared: one vendor for each chip. Section `vnpus` of the device configuration.

Names, templates and meanings: HAMi v2.10.0, chart and device-config.yaml. Unlike HAMi, memory that is asked only in
`requests` counts, and the template is chosen after the memory factor, not before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hami_platform.domain import devices, requests, units
from hami_platform.domain.vendors import base, container, parse, section
from hami_platform.domain.vendors.ascend_chips import CHIPS
from hami_platform.domain.vendors.strategies import ascend
from hami_platform.domain.wire import fields, node_register

CONFIG_KEY = "vnpus"
NODE_SWITCH = "hami-vnpu-core"
"""Node annotation that overrides the configuration's hamiVnpuCore."""
TIME = "predicate-time"
VISIBLE = "ASCEND_VISIBLE_DEVICES"

_NETWORKED = "Ascend910"
_PAIRED = "Ascend910C"


@dataclass(frozen=True, slots=True)
class Template:
    """A fixed part of an NPU."""

    name: str
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Chip:
    """One entry of the configuration, as far as the functions of the declaration need it. templates: least first.

    whole_mib: what a pod gets of a whole NPU; capacity_mib: what it may ask to get one.
    """

    word: str
    resource: str
    templates: tuple[Template, ...]
    whole_mib: int
    capacity_mib: int
    super_pod: bool
    soft_everywhere: bool

    def rounded(self, memory_mib: int) -> tuple[int, str]:
        """(MiB, template) of a split by template; no template for a whole NPU, 0 MiB for more than there is."""
        for one in self.templates:
            if memory_mib <= one.memory_mib:
                return one.memory_mib, one.name
        return (self.whole_mib if memory_mib <= self.capacity_mib else 0), ""

    def decode(self, vendor: base.Vendor, node: base.NodeSource) -> Sequence[devices.Device]:
        """The registered NPUs, each with its node's switch for soft split."""
        text = node.annotations.get(vendor.register_key, "")
        offers = node.annotations.get(NODE_SWITCH, "true" if self.soft_everywhere else "") == "true"
        found = node_register.decode(text, vendor=vendor.word) if text else ()
        return tuple(_with(one, ascend.OFFERS_SOFT, offers) if offers else one for one in found)

    def rules(self, vendor: base.Vendor, declared: container.Declared, notes: Mapping[str, str]) -> container.Additions:
        """Whole modules, and memory that is a template's or a whole NPU's. Raises RequestError."""
        names = vendor.resources
        count = parse.integer(declared, names.count, most=units.INT32_MAX)
        if count == 0:
            return container.Additions()
        if self.super_pod and count != 1 and count % 2:
            raise parse.refusal(declared, names.count, f"{vendor.word} comes in pairs: 1 or 2*n, got {count}")
        soft = notes.get(ascend.MODE) == ascend.SOFT
        if not soft and parse.integer(declared, names.cores, most=units.INT32_MAX):
            raise parse.refusal(declared, names.cores, "is only supported in hami-core (soft split) mode")
        memory = self._memory(vendor, declared, soft)
        if count > 1 and not soft and memory * vendor.unit_mib < self.whole_mib - vendor.unit_mib + 1:
            raise parse.refusal(declared, names.memory, "vNPU not supported for multiple devices")
        added = {names.memory: str(memory)} | ({names.count: "2"} if self.super_pod and count == 1 else {})
        return container.Additions(
            added if names.count in declared.limits else {},
            {key: text for key, text in added.items() if key == names.memory or key in declared.requests},
        )

    def _memory(self, vendor: base.Vendor, declared: container.Declared, soft: bool) -> int:
        """The memory resource that makes the request complete, in its own unit (rounded down to it)."""
        name, unit_mib = vendor.resources.memory, vendor.unit_mib
        if declared.amount(name) is None:
            return self.whole_mib // unit_mib
        asked = parse.integer(declared, name, most=units.MIB_CEILING // unit_mib, unit_mib=unit_mib)
        memory = asked if soft else self.rounded(asked * unit_mib)[0] // unit_mib
        if memory <= 0:
            raise parse.refusal(declared, name, f"{asked} is invalid: an NPU has {self.capacity_mib} MiB")
        return memory

    def read(
        self, vendor: base.Vendor, declared: container.Declared, notes: Mapping[str, str]
    ) -> requests.DeviceRequest | None:
        """As always; where the unit is more than a MiB, the template that admission rounded down."""
        ask = parse.ask(vendor, declared)
        if ask is None or vendor.unit_mib == 1 or not ask.memory_mib or notes.get(ascend.MODE) == ascend.SOFT:
            return ask
        memory_mib, _ = self.rounded(ask.memory_mib)
        return replace(ask, memory_mib=memory_mib or ask.memory_mib)

    def texts(self, vendor: base.Vendor, placed: base.Placed) -> Mapping[str, str]:
        """The time of the decision, and what the runtime reads: every NPU with its template or its amounts."""
        soft = placed.request.constraints.of(vendor.word).note(ascend.MODE) == ascend.SOFT
        rows = [self._row(share, soft) for shares in placed.shares for share in shares]
        return {self.resource: fields.dumps(rows), TIME: str(placed.at_ns // 10**9)}

    def _row(self, share: devices.Share, soft: bool) -> dict[str, str | int]:
        row: dict[str, str | int] = {
            "UUID": share.uuid,
            "temp": "" if soft else self.rounded(share.memory_mib)[1],
            "memory": share.memory_mib,
            "core": share.core_percent,
        }
        return {key: member for key, member in row.items() if member}


def declare_all(values: Any) -> tuple[base.Vendor, ...]:
    """A vendor for each chip of the configuration's section. Raises ConfigError."""
    if isinstance(values, list):  # as HAMi wrote it before there was a switch for all chips
        values = {"configs": values}
    config = section.section(CONFIG_KEY, values)
    chips = section.entries(f"{CONFIG_KEY}.configs", config.values.get("configs", CHIPS))
    everywhere = config.flag("hamiVnpuCore")
    return tuple(_declare(one, everywhere) for one in chips)


def _declare(config: section.Section, soft_everywhere: bool) -> base.Vendor:
    word = config.required("commonWord", "")
    chip = Chip(
        word=word,
        resource=f"huawei.com/{word}",
        templates=_templates(config),
        whole_mib=config.number("memoryAllocatable", 0, least=1, most=units.MIB_CEILING),
        capacity_mib=config.number("memoryCapacity", 0, most=units.MIB_CEILING),
        super_pod=config.flag("superPod") and word == _PAIRED,
        soft_everywhere=soft_everywhere,
    )
    return base.Vendor(
        word=word,
        resources=base.Resources(
            count=config.required("resourceName", f"huawei.com/{word}"),
            memory=config.text("resourceMemoryName"),
            cores=config.text("resourceCoreName"),
        ),
        allocated_key=f"hami.io/{word}-devices-allocated",
        to_allocate_key=f"hami.io/{word}-devices-to-allocate",
        register_key=f"hami.io/node-register-{word}",
        handshake_key=f"hami.io/node-handshake-{word}",
        unit_mib=max(1, config.number("memoryFactor", 0, most=units.MIB_CEILING)),
        defaults=base.Defaults(count=0),
        selection=base.Selection(
            use_uuids=f"hami.io/use-{word}-uuid", nouse_uuids=f"hami.io/no-use-{word}-uuid", notes=(ascend.MODE,)
        ),
        injection=base.Injection(
            absent_env=((VISIBLE, ""),) if config.flag("overwriteEnv") else (),
            runtime_class=config.text("runtimeClassName"),
        ),
        most_cores=units.INT32_MAX,
        strategy=ascend.of(networks=word.startswith(_NETWORKED), pairs=word == _PAIRED),
        decode=chip.decode,
        rules=chip.rules,
        read=chip.read,
        texts=chip.texts,
        owned_too=(chip.resource, TIME),
    )


def _templates(config: section.Section) -> tuple[Template, ...]:
    entries = section.entries(f"{config.name}.templates", config.values.get("templates") or [])
    found = [
        Template(one.required("name", ""), one.number("memory", 0, least=1, most=units.MIB_CEILING)) for one in entries
    ]
    return tuple(sorted(found, key=lambda one: one.memory_mib))


def _with(device: devices.Device, name: str, value: devices.Fact) -> devices.Device:
    return replace(device, custom=tuple(sorted((*device.custom, (name, value)))))
