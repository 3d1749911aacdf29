"""JSON form of a pod's facts, as the ledger stores them. Ours, not Kubernetes'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hami_platform.domain.errors import WireError
from hami_platform.domain.lifecycle import ContainerFact, PodFacts


def encode(facts: PodFacts) -> dict[str, Any]:
    """`{"phase", "deleting", "bound", "containers": {name: [state, exit code or null, started]}}`."""
    return {
        "phase": facts.phase,
        "deleting": facts.deleting,
        "bound": facts.bound,
        "containers": {name: [one.state, one.exit_code, one.started] for name, one in sorted(facts.containers.items())},
    }


def decode(value: Mapping[str, Any]) -> PodFacts | None:
    """The facts, or None for a pod of which no status was seen yet. Raises WireError."""
    if not value:
        return None
    try:
        containers = {
            name: ContainerFact(state, code, started) for name, (state, code, started) in value["containers"].items()
        }
        return PodFacts(value["phase"], value["deleting"], value["bound"], containers)
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise WireError(f"not stored pod facts: {fault}", field="facts") from fault
