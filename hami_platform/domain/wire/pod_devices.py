"""The allocation string of a pod: annotations `…-devices-to-allocate` and `…-devices-allocated`.

    pod := { container ";" }    container := { uuid "," vendor "," MiB "," core percent ":" }

One row per container, init containers first; an empty row keeps its place, since position is the container's identity.
Must not know: the pod. Source: HAMi v2.10.0, with the strict reading of its #2765.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from hami_platform.domain import errors, units
from hami_platform.domain.wire import fields

UUID_MAX, VENDOR_MAX = 128, 32
CONTAINERS_MAX = 1000
"""Far more rows than any pod has containers."""

_INSTANCE = re.compile(r"\[\d+-\d+\]$")
"""How HAMi before v2.10 named a MIG instance: the card's uuid, then geometry and position, `GPU-a[0-2]`."""

_NOTHING = ("", "", "0", "0")
"""How very old writers spelled a container without devices: `,,0,0:;`."""


class Row(NamedTuple):
    """One device of one container. vendor is the vendor word, not the model."""

    uuid: str
    vendor: str
    memory_mib: int
    core_percent: int


Rows = tuple[tuple[Row, ...], ...]


def encode(rows: Sequence[Sequence[Row]]) -> str:
    """The string for these containers. Raises WireError for a row that `decode` would not give back."""
    return "".join(f"{''.join(_device(row, slot, i) for i, row in enumerate(c))};" for slot, c in enumerate(rows))


def decode(text: str) -> Rows:
    """The rows of the containers. Raises WireError naming slot and device.

    Tolerated: missing separators at the end, extra fields, `,,0,0` for nothing. The empty tail behind the last `;`
    is no container.
    """
    containers = text.split(";")
    if containers[-1] == "":
        containers.pop()
    if len(containers) > CONTAINERS_MAX:
        raise errors.WireError(f"more than {CONTAINERS_MAX} containers")
    return tuple(_container(container, slot) for slot, container in enumerate(containers))


def align(rows: Rows, container_count: int) -> Rows | None:
    """Exactly one row per container, or None when position says nothing.

    HAMi v2.10.0 drops empty rows on real nodes, so fewer rows than containers cannot be attributed: the caller must
    count every row as an app container's. Empty rows too many are harmless: HAMi's plugin adds one at each rewrite.
    """
    if len(rows) < container_count or any(rows[container_count:]):
        return None
    return rows[:container_count]


def card(uuid: str) -> str:
    """The card that a row names. Of an instance as HAMi named it before v2.10 only its card is known, not its place."""
    return _INSTANCE.sub("", uuid)


def _container(text: str, slot: int) -> tuple[Row, ...]:
    parts = [part for part in text.split(":") if part]
    return tuple(row for i, part in enumerate(parts) if (row := _row(part, f"slot {slot}, device {i}")) is not None)


def _row(text: str, field: str) -> Row | None:
    values = text.split(",")
    if len(values) < 4:
        raise errors.WireError(f"4 fields are expected, found {len(values)}", field=field)
    if tuple(values[:4]) == _NOTHING:
        return None
    row = Row(
        values[0],
        values[1],
        fields.integer(values[2], f"{field}: memory", least=0),
        fields.integer(values[3], f"{field}: cores", least=0),
    )
    _check_names(row, field)
    return row


def _device(row: Row, slot: int, index: int) -> str:
    field = f"slot {slot}, device {index}"
    _check_names(row, field)
    for name, value in (("memory", row.memory_mib), ("cores", row.core_percent)):
        if not 0 <= value <= units.INT32_MAX:
            raise errors.WireError(f"{value} is not from 0 to {units.INT32_MAX}", field=f"{field}: {name}")
    return f"{row.uuid},{row.vendor},{row.memory_mib},{row.core_percent}:"


def _check_names(row: Row, field: str) -> None:
    for name, value, most in (("uuid", row.uuid, UUID_MAX), ("vendor", row.vendor, VENDOR_MAX)):
        fields.storable(value, most, f"{field}: {name}")
        if not value or any(separator in value for separator in ",:;"):
            raise errors.WireError(f"{value[:80]!r} is empty or has a separator in it", field=f"{field}: {name}")
