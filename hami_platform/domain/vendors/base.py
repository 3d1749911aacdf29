"""What a vendor declares: resource names, units, defaults, annotation keys. Must not know: any one vendor.

A vendor is data: admission, parsing, the wire and quotas read it and never ask which vendor it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from hami_platform.domain import devices, errors, requests, strategy
from hami_platform.domain.vendors import inventory
from hami_platform.domain.vendors.container import Additions, Declared
from hami_platform.domain.wire import node_register

OWN_PREFIX = "platform.hami.io/"
"""Everything below it is ours: users may not set or change it."""
LABEL_TRUE = "true"

_COMMON_OWNED = (
    "hami.io/vgpu-node",
    "hami.io/vgpu-time",
    "hami.io/bind-time",
    "hami.io/bind-phase",
    "hami.io/vgpu-mig-allocations",
)
"""Keys that the scheduler writes for every vendor; the first one is a label too."""


class Quantity(StrEnum):
    """What a resource name counts."""

    COUNT = "count"
    MEMORY = "memory"
    PERCENT = "percent"
    CORES = "cores"


@dataclass(frozen=True, slots=True)
class Resources:
    """Names of extended resources; empty: the vendor has none, or the operator switched it off.

    memory counts units of `Vendor.unit_mib` per device, percent of the registered memory, cores percent of a device.
    """

    count: str
    memory: str = ""
    percent: str = ""
    cores: str = ""
    priority: str = ""

    def named(self) -> Iterator[tuple[str, Quantity]]:
        """(name, what it counts) of every resource that asks for a device. priority alone asks for none."""
        pairs = (
            (self.count, Quantity.COUNT),
            (self.memory, Quantity.MEMORY),
            (self.percent, Quantity.PERCENT),
            (self.cores, Quantity.CORES),
        )
        return ((name, quantity) for name, quantity in pairs if name)


@dataclass(frozen=True, slots=True)
class Defaults:
    """What counts where a container says nothing. count 0: asking for memory or cores alone is no request.

    exclusive: a request for whole devices gets 100 % of the cores, so that nobody shares them. whole False: a device
    given without an amount of memory holds none of it. spelled_percent: how HAMi writes the percentage of a request
    without memory where that is not what counts; it stands in no annotation.
    """

    count: int = 1
    memory_mib: int = 0
    core_percent: int = 0
    exclusive: bool = False
    whole: bool = True
    spelled_percent: int | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Pod annotations by which a user chooses devices; empty: not offered.

    A device must pass the lists of uuids and those that are there `too`. notes: what only the strategy understands.
    """

    use_models: str = ""
    nouse_models: str = ""
    use_uuids: str = ""
    nouse_uuids: str = ""
    numa_bind: str = ""
    mode: str = ""
    use_uuids_too: str = ""
    nouse_uuids_too: str = ""
    notes: tuple[str, ...] = ()

    def keys(self) -> Iterator[str]:
        """Every annotation that is read."""
        yield from filter(None, (self.use_models, self.nouse_models, self.use_uuids, self.nouse_uuids))
        yield from filter(None, (self.use_uuids_too, self.nouse_uuids_too, self.numa_bind, self.mode, *self.notes))


@dataclass(frozen=True, slots=True)
class Injection:
    """What admission writes into pods.

    priority_env carries the priority resource's value. fixed_env goes into containers with devices, absent_env into the
    other containers of such a pod. runtime_class is set where the pod names none.
    """

    priority_env: str = ""
    fixed_env: tuple[tuple[str, str], ...] = ()
    absent_env: tuple[tuple[str, str], ...] = ()
    runtime_class: str = ""


@dataclass(frozen=True, slots=True)
class NodeSource:
    """What a node object says of its devices. capacity: whole numbers by resource name; what is no number is absent."""

    name: str
    annotations: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod's shares of one vendor on one node, for the annotations beside the allocation.

    shares: per container, in order. devices: the vendor's on that node, by uuid. at_ns: nanoseconds since 1970.
    """

    node: str
    request: requests.PodRequest
    shares: Sequence[Sequence[devices.Share]]
    devices: Mapping[str, devices.Device]
    at_ns: int


Decode = Callable[["Vendor", NodeSource], Sequence[devices.Device]]
Rules = Callable[["Vendor", Declared, Mapping[str, str]], Additions]
Read = Callable[["Vendor", Declared, Mapping[str, str]], requests.DeviceRequest | None]
Texts = Callable[["Vendor", Placed], Mapping[str, str]]

SHARED_LOCK = "hami.io/mutex.lock"


@dataclass(frozen=True, slots=True)
class Vendor:
    """One kind of device. word is its key in every map and its type field on the wire.

    Keys are node or pod annotations; empty: the vendor has none. most_cores: the greatest amount of the core resource
    for one container. registered_cores: what every device has, whatever its plugin registers. core_units: devices
    register compute units in place of percent; metrics turn them into percent. strategy: how devices
    are chosen. What no field can say is a function: decode (devices of a node; without it the register annotation),
    rules (what admission adds to a container that names the vendor's resources; raises RequestError), read (what a
    container asks for, in place of the generic reading), texts (annotations beside the allocation, with owned_too as
    their keys). model_on_wire: the type field carries the registered model. lock: the node annotation that is taken
    from bind to allocation where the vendor's own plugin allocates.
    """

    word: str
    resources: Resources
    allocated_key: str
    to_allocate_key: str = ""
    register_key: str = ""
    handshake_key: str = ""
    pair_scores_key: str = ""
    unit_mib: int = 1
    defaults: Defaults = Defaults()
    selection: Selection = Selection()
    injection: Injection = Injection()
    most_cores: int = 100
    registered_cores: int = 0
    core_units: bool = False
    strategy: strategy.Strategy = strategy.DEFAULT
    decode: Decode | None = None
    rules: Rules | None = None
    read: Read | None = None
    texts: Texts | None = None
    owned_too: tuple[str, ...] = ()
    model_on_wire: bool = False
    lock: str = SHARED_LOCK

    @property
    def node_label(self) -> str:
        """The node label that means "has ever registered devices of this vendor"; its value is LABEL_TRUE."""
        return OWN_PREFIX + self.word.lower()

    @property
    def owned_keys(self) -> tuple[str, ...]:
        """Pod annotations of this vendor that only the scheduler and the plugin may write."""
        return tuple(key for key in (self.to_allocate_key, self.allocated_key, *self.owned_too) if key)

    def registered(self, node: NodeSource) -> Sequence[devices.Device]:
        """The vendor's devices on a node; none where its plugin never was. Raises WireError."""
        if self.decode is not None:
            return inventory.checked(self.decode(self, node))
        text = node.annotations.get(self.register_key, "") if self.register_key else ""
        found = node_register.decode(text, vendor=self.word) if text else ()
        if not self.registered_cores:
            return found
        return tuple(replace(one, core_percent=self.registered_cores) for one in found)

    def type_on_wire(self, share: devices.Share) -> str:
        """The type field of a share's row."""
        return share.model if self.model_on_wire and share.model else self.word


@dataclass(frozen=True, slots=True)
class OwnedKeys:
    """Annotations and labels alike that users may neither set nor change: exact keys, and all below a prefix."""

    keys: tuple[str, ...]
    prefixes: tuple[str, ...]

    def __contains__(self, key: str) -> bool:
        return key in self.keys or key.startswith(self.prefixes)


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """The vendors in use, sorted by word, each with the operator's names and defaults."""

    vendors: tuple[Vendor, ...]
    resource_names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Every name that asks for a device, sorted."""
    owned_keys: OwnedKeys = field(init=False, repr=False, compare=False)
    """Every key that users may not touch, sorted."""
    strategies: strategy.Strategies = field(init=False, repr=False, compare=False)
    """Of the vendors whose devices are not chosen in the common way."""
    _by_word: dict[str, Vendor] = field(init=False, repr=False, compare=False)
    _by_resource: dict[str, tuple[Vendor, Quantity]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Derives what every admission needs. Raises ConfigError for a word or a resource name that is used twice."""
        by_resource: dict[str, tuple[Vendor, Quantity]] = {}
        for vendor in self.vendors:
            for name, quantity in vendor.resources.named():
                if name in by_resource:
                    raise errors.ConfigError(f"{name}: used by {by_resource[name][0].word} and by {vendor.word}")
                by_resource[name] = (vendor, quantity)
        by_word = {vendor.word: vendor for vendor in self.vendors}
        if len(by_word) < len(self.vendors):
            raise errors.ConfigError("two vendors with the same word")
        object.__setattr__(self, "_by_word", by_word)
        special = {vendor.word: vendor.strategy for vendor in self.vendors if vendor.strategy is not strategy.DEFAULT}
        object.__setattr__(self, "strategies", special)
        object.__setattr__(self, "_by_resource", by_resource)
        object.__setattr__(self, "resource_names", tuple(sorted(by_resource)))
        own = {key for vendor in self.vendors for key in vendor.owned_keys}
        object.__setattr__(self, "owned_keys", OwnedKeys(tuple(sorted(own.union(_COMMON_OWNED))), (OWN_PREFIX,)))

    def vendor(self, word: str) -> Vendor:
        """The vendor of this word. Raises ConfigError where it is not configured."""
        try:
            return self._by_word[word]
        except KeyError:
            raise errors.ConfigError(f"{word}: no such vendor is configured") from None

    def named(self, resources: Iterable[str]) -> tuple[Vendor, ...]:
        """The vendors to whom any of these resources belongs, in their order."""
        found = {known[0].word: known[0] for name in resources if (known := self._by_resource.get(name)) is not None}
        return tuple(found.values()) if len(found) < 2 else tuple(one for one in self.vendors if one.word in found)

    def resource(self, name: str) -> tuple[Vendor, Quantity] | None:
        """Whose resource this is and what it counts; None for a name that is nobody's (cpu, …)."""
        return self._by_resource.get(name)
