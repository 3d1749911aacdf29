"""Settings of the node agent's monitor, and of the library that holds containers to their limits.

A part of the table in `env`; apart only for its length.
"""

from __future__ import annotations

from dataclasses import dataclass

from hami_platform import env_agent
from hami_platform import env_values as values
from hami_platform.env_reading import row


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSettings(env_agent.DeviceSettings):
    """See env.Settings."""

    monitor: bool = row(
        values.boolean, "true", "Read what containers use of their devices, show it as metrics and report it."
    )
    feedback: bool = row(
        values.boolean,
        "true",
        "The monitor also steers kernel launches by priority and contention. False where HAMi's vGPUmonitor does.",
    )
    measure_period_s: float = row(
        values.seconds,
        "60s",
        "How often measurements are reported to the platform. 0: never.",
        variable="MEASURE_PERIOD",
    )
    limit_mode: str = row(
        values.choice("enforce", "count"),
        "enforce",
        "`enforce`: containers get the limiting library, and none starts without it. `count`: none gets it; the ledger "
        "counts, and nothing on the node holds a container to its share.",
    )
    library_source: str = row(
        values.text, "", "libvgpu.so in the agent's image, to be installed on the node. Empty: it is there already."
    )
    library_sha256: str = row(
        values.sha256, "", "Hash of the only library that may be used, 64 hexadecimal digits. Empty: any."
    )
    library_replace: bool = row(
        values.boolean,
        "false",
        "Replace the node's library also where it is newer than the image's, or nobody knows which of the two is.",
    )
