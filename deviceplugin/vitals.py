"""Whether a card may take new work: what ails it, and when it is well again.

Four things count: harmful XIDs, uncorrected memory errors, heat, and the driver's own wish for a reset. Each goes both
ways. One that a driver does not tell ails nobody. Must not know: how the library is loaded, or who is told.
Source of calls and constants: NVML API reference, NVIDIA driver 535 and later; the recovery action since 570.
"""

from __future__ import annotations

from typing import Any

RECOVERY_ACTION = 230
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION; its value 0 is "none". The package names it only in newer releases."""

QUIET_SCANS = 12
"""Scans in a row in which the driver wants nothing before an XID is over: it may take a moment to say what it wants."""

HOT_SCANS = 3
COOLER_C = 5
"""Heat counts after some scans, and is over some degrees below the limit: a card at the limit must not flap."""

XID = "XID "
"""How an ailment begins that a harmful XID caused."""


class Vitals:
    """What is known of each card's health, by uuid. limit_c: 0 takes the card's own slowdown threshold.

    others: whether anything but XIDs counts.
    """

    def __init__(self, nvml: Any, limit_c: int = 0, *, others: bool = True) -> None:
        self._nvml = nvml
        self._others = others
        self._limit_c = limit_c
        self._xids: dict[str, int] = {}
        self._quiet: dict[str, int] = {}
        self._hurt: dict[str, set[int | None]] = {}
        self._errors: dict[str, int] = {}
        self._damaged: set[str] = set()
        self._heat: dict[str, int] = {}
        self._deaf: set[str] = set()

    def harmed(self, uuid: str, xid: int, gpu_instance: int | None = None) -> None:
        """The card reported a harmful XID, of one GPU instance or of the whole card."""
        self._xids[uuid] = xid
        self._quiet[uuid] = 0
        self._hurt.setdefault(uuid, set()).add(gpu_instance)

    def spares(self, uuid: str, ailment: str, gpu_instance: int) -> bool:
        """Whether what ails the card concerns other GPU instances only."""
        hurt = self._hurt.get(uuid, set())
        return not ailment or (ailment.startswith(XID) and not {None, gpu_instance} & hurt)

    def deaf(self, uuid: str, *, is_deaf: bool) -> None:
        """Whether its XIDs cannot be heard, so that nobody would know when it breaks."""
        (self._deaf.add if is_deaf else self._deaf.discard)(uuid)

    def back(self, uuid: str) -> None:
        """The card was away and is there again: it was reset, and what ailed it is over."""
        memories: tuple[dict[str, Any], ...] = (self._xids, self._quiet, self._hurt, self._errors, self._heat)
        for memory in memories:
            memory.pop(uuid, None)
        self._damaged.discard(uuid)

    def ailment(self, uuid: str, handle: Any) -> str:
        """What ails the card, in words that stay the same while it lasts; empty when nothing does. Raises NVMLError."""
        action = self._recovery_action(handle)
        hot, damaged = self._hot(uuid, handle), self._memory_damaged(uuid, handle)
        self._outlast(uuid, action)
        if uuid in self._deaf:
            return "its errors cannot be watched"
        if uuid in self._xids:
            return f"{XID}{self._xids[uuid]}"
        if not self._others:
            return ""
        if action:
            return "the driver wants a reset"
        if damaged:
            return "uncorrected memory errors"
        return "too hot" if hot else ""

    def _outlast(self, uuid: str, action: int | None) -> None:
        """An XID ends when the driver keeps wanting nothing; a driver that does not say ends none."""
        if uuid not in self._xids or action is None:
            return
        self._quiet[uuid] = 0 if action else self._quiet[uuid] + 1
        if self._quiet[uuid] >= QUIET_SCANS:
            del self._xids[uuid], self._quiet[uuid], self._hurt[uuid]

    def _recovery_action(self, handle: Any) -> int | None:
        try:
            (value,) = self._nvml.nvmlDeviceGetFieldValues(handle, [RECOVERY_ACTION])
        except self._nvml.NVMLError as error:
            self._absent(error)
            return None
        return int(value.value.uiVal) if value.nvmlReturn == self._nvml.NVML_SUCCESS else None

    def _memory_damaged(self, uuid: str, handle: Any) -> bool:
        """Uncorrected errors that came while the agent watched; a counter that fell was reset with its card."""
        nvml = self._nvml
        try:
            count = nvml.nvmlDeviceGetTotalEccErrors(
                handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            )
        except nvml.NVMLError as error:
            self._absent(error)
            return False
        before = self._errors.setdefault(uuid, count)
        self._errors[uuid] = count
        if count > before:
            self._damaged.add(uuid)
        elif count < before:
            self._damaged.discard(uuid)
        return uuid in self._damaged

    def _hot(self, uuid: str, handle: Any) -> bool:
        nvml = self._nvml
        try:
            now_c = nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
            limit_c = self._limit_c or nvml.nvmlDeviceGetTemperatureThreshold(
                handle, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
            )
        except nvml.NVMLError as error:
            self._absent(error)
            return False
        was = self._heat.get(uuid, 0)
        least_c = limit_c - COOLER_C if was >= HOT_SCANS else limit_c
        self._heat[uuid] = was + 1 if now_c >= least_c else 0
        return self._heat[uuid] >= HOT_SCANS

    def _absent(self, error: Any) -> None:
        """A question that this card or driver does not answer is none; anything else is an error of the card."""
        nvml = self._nvml
        unanswered = (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND, nvml.NVML_ERROR_NO_PERMISSION)
        if error.value not in (*unanswered, nvml.NVML_ERROR_INVALID_ARGUMENT):
            raise error
