"""Every test starts without a View, a cluster, a client or a binder of another test."""

from __future__ import annotations

from tests.scheduler_ext.conftest import nothing_remembered, world

__all__ = ["nothing_remembered", "world"]
