"""What a namespace's limits mean for one request, worked out once per kind of device and not once per device.

A memo for the length of one decision. Knows nothing of nodes; exact sums over what a pod takes are `fit` and `quota`.
"""

from __future__ import annotations

from hami_platform.domain import quota
from hami_platform.domain.requests import DeviceRequest, PodRequest

Kind = tuple[str, int]
"""(model, registered memory in MiB): what a charge depends on."""


class Gate:
    """The limits in force, with answers that hold for all devices of a kind. Not for devices in MIG mode."""

    def __init__(self, headroom: quota.Headroom, request: PodRequest) -> None:
        self.headroom = headroom
        self._request = request
        self._never: dict[int, bool] = {}
        self._first: dict[tuple[DeviceRequest, Kind], bool] = {}

    def never_refuses(self, largest_mib: int) -> bool:
        """Whether the whole pod is within all limits on any devices of at most largest_mib."""
        if largest_mib not in self._never:
            self._never[largest_mib] = quota.never_refuses(self.headroom, self._request, largest_mib)
        return self._never[largest_mib]

    def refuses_first(self, ask: DeviceRequest, kind: Kind, core_percent: int) -> bool:
        """Whether even one device of this kind, as the first that the pod takes, would break a limit."""
        key = (ask, kind)
        if key not in self._first:
            model, total_mib = kind
            memory_mib = ask.memory_on(total_mib)
            amounts = quota.Amounts(1, memory_mib, core_percent)
            charge = quota.Charge(ask.vendor, model, amounts, memory_mib)
            self._first[key] = quota.excess(self.headroom, (charge,)) is not None
        return self._first[key]


def gate_of(headroom: quota.Headroom, request: PodRequest) -> Gate | None:
    """None where no limit is enforced."""
    return Gate(headroom, request) if headroom.enforced and headroom.rules else None
