"""The agent's metrics, all of them: what it handed out, what it refused and why, what waits.

Must not know: anything else of the agent; its parts set these.
"""

from __future__ import annotations

from hami_platform import metrics

ALLOCATIONS = metrics.counter(
    "hami_platform_agent_allocations_total", "Answered Allocate calls; granted, or the reason of refusal.", ("outcome",)
)
ALLOCATE_S = metrics.histogram("hami_platform_agent_allocate_seconds", "Time to answer one Allocate call.")
CARDS = metrics.gauge("hami_platform_agent_devices", "Cards that the node has.", ("health",))
SCAN_FAILURES = metrics.counter("hami_platform_agent_scan_failures_total", "Scans that could not read the cards.")
DIFFERENCES = metrics.gauge(
    "hami_platform_agent_kubelet_differences",
    "Containers about which the kubelet's books and the agent's record differ.",
)
REFITS = metrics.counter(
    "hami_platform_agent_refits_total", "Requests to move a container to cards that the kubelet offers.", ("outcome",)
)
REGISTERED = metrics.gauge(
    "hami_platform_agent_kubelet_registered",
    "1 while the running kubelet knows the plugin, for each resource.",
    ("resource",),
)
NODE_PATCHES = metrics.counter("hami_platform_agent_node_patches_total", "Changes made to the node object.")
RENEWED_S = metrics.gauge(
    "hami_platform_agent_lease_renewed_timestamp_seconds", "When the agent's lease was last renewed, unix time."
)
REPORTS_WAITING = metrics.gauge(
    "hami_platform_agent_reports_waiting", "Served containers that the platform has not acknowledged."
)
