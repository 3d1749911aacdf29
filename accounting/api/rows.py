"""Rows of this process's cluster, and what endpoints ask of the View."""

from __future__ import annotations

from typing import Any

from django.http import Http404

from accounting import ledger, live_view
from hami_platform.domain.view import View


def view_now() -> View:
    """The View at the last committed revision."""
    return live_view.live().refresh()


def ours(model: Any) -> Any:
    """The model's rows of this cluster."""
    return model.objects.filter(cluster=ledger.cluster_id())


def found(row: Any, message: str) -> Any:
    """The row. Raises Http404 for none."""
    if row is None:
        raise Http404(message)
    return row
