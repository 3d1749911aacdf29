"""The monitor's own metrics: how its rounds go and what is wrong with regions. What it measures is in monitor_metrics.

Must not know: anything else of the agent.
"""

from __future__ import annotations

from hami_platform import metrics

ROUND_S = metrics.histogram(
    "hami_platform_agent_monitor_round_seconds",
    "Time to read all regions and steer their libraries once.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5),
)
ROUND_AT = metrics.gauge(
    "hami_platform_agent_monitor_round_timestamp_seconds", "When the last round ended, unix time; old is stuck."
)
REGIONS = metrics.gauge("hami_platform_agent_regions", "Running containers whose region was read in the last round.")
PROBLEMS = metrics.gauge(
    "hami_platform_agent_region_problems", "Regions that have this problem now; the log names them.", ("problem",)
)
FOUND = metrics.counter(
    "hami_platform_agent_region_problems_found_total", "Problems of regions, counted when they begin.", ("problem",)
)
STEERED = metrics.counter(
    "hami_platform_agent_feedback_writes_total", "Words written into regions to block or release launches."
)
RESTORED = metrics.counter(
    "hami_platform_agent_limits_restored_total", "Memory limits that a container had changed and that were set back."
)
UNMEASURED = metrics.counter(
    "hami_platform_agent_card_measurements_failed_total", "Rounds in which the cards could not be measured."
)
WAITING = metrics.gauge("hami_platform_agent_measurements_waiting", "Batches of measurements that are not delivered.")
DROPPED = metrics.counter(
    "hami_platform_agent_measurements_dropped_total", "Batches given up: too many waited, or they were rejected."
)
LIMITS = metrics.gauge(
    "hami_platform_agent_limits", "1 for how containers are held to their limits on this node.", ("state",)
)
