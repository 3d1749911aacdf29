"""The Ascend chips that are configured where nobody says otherwise. Values only.

Source: HAMi v2.10.0, chart's device-config.yaml: memory of an NPU and of its templates in MiB.
"""

from __future__ import annotations

from typing import Any


def _chip(word: str, allocatable: int, capacity: int, *templates: tuple[str, int], **more: Any) -> dict[str, Any]:
    return {
        "commonWord": word,
        "resourceName": f"huawei.com/{word}",
        "resourceMemoryName": f"huawei.com/{word}-memory",
        "resourceCoreName": f"huawei.com/{word}-core",
        "memoryAllocatable": allocatable,
        "memoryCapacity": capacity,
        "templates": [{"name": name, "memory": memory} for name, memory in templates],
        **more,
    }


CHIPS = [
    _chip("Ascend910A", 32768, 32768, ("vir02", 2184), ("vir04", 4369), ("vir08", 8738), ("vir16", 17476)),
    _chip("Ascend910B2", 65536, 65536, ("vir03_1c_8g", 8192), ("vir06_1c_16g", 16384), ("vir12_3c_32g", 32768)),
    _chip("Ascend910B3", 65536, 65536, ("vir05_1c_16g", 16384), ("vir10_3c_32g", 32768)),
    _chip("Ascend910B4-1", 65536, 65536, ("vir05_1c_16g", 16384), ("vir10_3c_32g", 32768)),
    _chip("Ascend910B4", 32768, 32768, ("vir05_1c_8g", 8192), ("vir10_3c_16g", 16384)),
    _chip("Ascend310P", 21527, 24576, ("vir01", 3072), ("vir02", 6144), ("vir04", 12288)),
    _chip("Ascend910C", 65536, 65536, ("vir05_1c_16g", 16384), ("vir10_3c_32g", 32768), superPod=True),
]
