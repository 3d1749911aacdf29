"""How Metax GPUs are scored: by what their node says that a number of them is worth. Source: HAMi v2.10.0."""

from __future__ import annotations

import json

from hami_platform.domain import strategy
from hami_platform.domain.vendors.strategies import same_devices

LOSSES = "gpu.topology.losses"
SCORES = "gpu.topology.scores"
"""Device facts: the node's tables, JSON objects of number of devices -> points."""
_BASE = 2000


def _score(outcome: strategy.Outcome) -> float:
    """Less is lost, or more is kept for others; 0 where the node has no table."""
    device = outcome.device(outcome.shares[0].uuid) if outcome.shares else None
    table = device.fact(SCORES if outcome.spreads else LOSSES) if device is not None else None
    if table is None:
        return 0.0
    points = json.loads(str(table)).get(str(len(outcome.shares)), 0)
    return float(_BASE - points)


GPU = strategy.Strategy(refuses=same_devices.refuses, score=_score)
