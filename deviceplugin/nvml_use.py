"""What a card is used for now, by the driver. Must not import pynvml: `nvml` passes it in.

Source of calls: NVML API reference, NVIDIA driver 535 and later.
"""

from __future__ import annotations

from typing import Any

from deviceplugin import inventory
from deviceplugin.monitor_use import CardUse


def use_of(nvml: Any, handle: Any, card: inventory.Card) -> CardUse:
    """One card's figures; None for what the driver does not tell, as utilisation of a card in MIG mode."""
    memory = _told(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    rates = _told(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
    return CardUse(
        uuid=card.uuid,
        index=card.index,
        model=card.model,
        memory_used_bytes=None if memory is None else int(memory.used),
        core_percent=None if rates is None else int(rates.gpu),
        memory_controller_percent=None if rates is None else int(rates.memory),
    )


def _told(nvml: Any, call: Any, handle: Any) -> Any:
    try:
        return call(handle)
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_NOT_SUPPORTED:
            raise
        return None
