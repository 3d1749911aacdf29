"""What a card is used for and how it is now, by the driver. Must not import pynvml: `nvml` passes it in.

Source of calls and constants: NVML API reference, NVIDIA driver 535 and later.
"""

from __future__ import annotations

from typing import Any, Final

from deviceplugin import inventory
from deviceplugin.monitor_use import CardUse, Condition

SLOWED: Final = (
    (0x004, "power_cap"),
    (0x008, "hardware"),
    (0x010, "sync_boost"),
    (0x020, "heat_software"),
    (0x040, "heat_hardware"),
    (0x080, "power_brake"),
    (0x200, "board_limit"),
    (0x400, "reliability"),
)
"""Bits of nvmlClocksEventReason, and our words. An idle card's, and clocks that people set, slow nobody down."""


def use_of(nvml: Any, handle: Any, card: inventory.Card, xid: tuple[int, int] | None = None) -> CardUse:
    """One card's figures; None for what the driver does not tell, as utilisation of a card in MIG mode.

    xid: the last one heard, and how many seconds ago.
    """
    memory = _told(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    rates = _told(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
    return CardUse(
        uuid=card.uuid,
        index=card.index,
        model=card.model,
        memory_used_bytes=None if memory is None else int(memory.used),
        core_percent=None if rates is None else int(rates.gpu),
        memory_controller_percent=None if rates is None else int(rates.memory),
        condition=_condition(nvml, handle, card.ailment, xid),
    )


def silent(card: inventory.Card, xid: tuple[int, int] | None) -> CardUse:
    """A card that does not answer: why, and nothing else."""
    number, age_s = xid or (None, None)
    condition = Condition(xid=number, xid_age_s=age_s, ailment=card.ailment)
    return CardUse(card.uuid, card.index, card.model, condition=condition)


def _condition(nvml: Any, handle: Any, ailment: str, xid: tuple[int, int] | None) -> Condition:
    number, age_s = xid or (None, None)
    return Condition(
        temperature_c=_told(nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        temperature_limit_c=_told(
            nvml, nvml.nvmlDeviceGetTemperatureThreshold, handle, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
        ),
        power_w=_watts(_told(nvml, nvml.nvmlDeviceGetPowerUsage, handle)),
        power_limit_w=_watts(_told(nvml, nvml.nvmlDeviceGetEnforcedPowerLimit, handle)),
        slowed=_slowed(nvml, handle),
        xid=number,
        xid_age_s=age_s,
        ailment=ailment,
    )


def _watts(milliwatts: int | None) -> int | None:
    return None if milliwatts is None else round(milliwatts / 1000)


def _slowed(nvml: Any, handle: Any) -> tuple[str, ...] | None:
    """By the name of older drivers, which newer ones keep."""
    bits = _told(nvml, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    return None if bits is None else tuple(word for bit, word in SLOWED if bits & bit)


def _told(nvml: Any, call: Any, *arguments: Any) -> Any:
    """None for a question that this card or driver does not answer."""
    try:
        return call(*arguments)
    except nvml.NVMLError as error:
        if error.value not in (
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_INVALID_ARGUMENT,
        ):
            raise
        return None
