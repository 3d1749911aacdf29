"""NVIDIA, declared. Names, defaults and meanings: HAMi v2.10.0, chart and device-config.yaml, section `nvidia`."""

from __future__ import annotations

from typing import Any

from hami_platform.domain import units
from hami_platform.domain.vendors import base
from hami_platform.domain.vendors.section import Section, section

WORD = "NVIDIA"
CONFIG_KEY = "nvidia"

_CORE_POLICIES = ("", "default", "force", "disable")


def declare_all(values: Any) -> tuple[base.Vendor, ...]:
    """The vendor of the configuration's section. Raises ConfigError."""
    return (declare(values),)


def declare(values: Any) -> base.Vendor:
    """The vendor as the operator configured it; absent keys are the chart's defaults. Raises ConfigError."""
    config = section(CONFIG_KEY, values)
    return base.Vendor(
        word=WORD,
        resources=_resources(config),
        allocated_key="hami.io/vgpu-devices-allocated",
        to_allocate_key="hami.io/vgpu-devices-to-allocate",
        register_key="hami.io/node-nvidia-register",
        handshake_key="hami.io/node-handshake",
        pair_scores_key="hami.io/node-nvidia-score",
        # A factor of 0 or 1 means that nothing is scaled.
        unit_mib=max(1, config.number("memoryFactor", 1, most=units.MIB_CEILING)),
        defaults=base.Defaults(
            count=config.number("defaultGPUNum", 1),
            memory_mib=config.number("defaultMemory", 0, most=units.MIB_CEILING),
            core_percent=config.number("defaultCores", 0, most=100),
            exclusive=True,
        ),
        selection=base.Selection(
            use_models="nvidia.com/use-gputype",
            nouse_models="nvidia.com/nouse-gputype",
            use_uuids="nvidia.com/use-gpuuuid",
            nouse_uuids="nvidia.com/nouse-gpuuuid",
            numa_bind="nvidia.com/numa-bind",
            mode="nvidia.com/vgpu-mode",
        ),
        injection=_injection(config),
    )


def _resources(config: Section) -> base.Resources:
    return base.Resources(
        count=config.required("resourceCountName", "nvidia.com/gpu"),
        memory=config.text("resourceMemoryName", "nvidia.com/gpumem"),
        percent=config.text("resourceMemoryPercentageName", "nvidia.com/gpumem-percentage"),
        cores=config.text("resourceCoreName", "nvidia.com/gpucores"),
        priority=config.text("resourcePriorityName", "nvidia.com/priority"),
    )


def _injection(config: Section) -> base.Injection:
    policy = config.word("gpuCorePolicy", "default", _CORE_POLICIES)
    hidden = config.flag("overwriteEnv")
    return base.Injection(
        priority_env="CUDA_TASK_PRIORITY",
        fixed_env=(("GPU_CORE_UTILIZATION_POLICY", policy),) if policy not in ("", "default") else (),
        absent_env=(("NVIDIA_VISIBLE_DEVICES", "none"),) if hidden else (),
        runtime_class=config.text("runtimeClassName"),
    )
