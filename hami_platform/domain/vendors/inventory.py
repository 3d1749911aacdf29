"""What a vendor's devices must be for the ledger to keep them, however they were read. Must not know: any one vendor.

Names and amounts are whatever somebody wrote on a node, or made of its name; a database refuses some of them, and then
it would refuse the whole node.
"""

from __future__ import annotations

from collections.abc import Sequence

from hami_platform.domain import devices, errors, units
from hami_platform.domain.wire import fields

NAME_MAX = 128
MODE_MAX = 32
_AMOUNTS = ("index", "core_percent", "slots")


def checked(found: Sequence[devices.Device]) -> Sequence[devices.Device]:
    """The same devices. Raises WireError naming the one that cannot be kept."""
    for place, one in enumerate(found):
        field = f"device {place}"
        for name, text, most in (
            ("uuid", one.uuid, NAME_MAX),
            ("type", one.model, NAME_MAX),
            ("mode", one.mode, MODE_MAX),
        ):
            fields.storable(text, most, f"{field}: {name}")
        for name, fact in one.custom:
            if isinstance(fact, str):
                fields.storable(fact, len(fact), f"{field}: {name}")
        if not 0 <= one.memory_mib <= units.INT32_MAX * units.INT32_MAX:
            raise errors.WireError("memory is out of range", field=field)
        for name in _AMOUNTS:
            if not 0 <= getattr(one, name) <= units.INT32_MAX:
                raise errors.WireError(f"{name} is out of range", field=field)
    return found
