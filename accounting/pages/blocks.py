"""A large cluster as one block for each node. What is drawn of a node is kept as long as the node stays the same.

Must not know requests: a block shows amounts, and no holders.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from accounting.selectors import cluster
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.view import View


@dataclass(frozen=True, slots=True)
class BlockGroup:
    """All nodes with a model: how many devices, and their blocks."""

    model: str
    devices: int
    drawn: SafeString


Block = tuple[str, int, SafeString]
"""(model, devices of it on the node, what is drawn)."""

_BLOCK = (
    '<li><a class="cell" id="n-{}" href="{}" title="{}" aria-label="{}"><svg width="28" height="28" viewBox="0 0 28 28"'
    ' aria-hidden="true"><path class="cell-back{}" d="M.5 .5h27v27h-27z"/><path class="cell-fill" d="M1 {}h21v{}H1z"/>'
    '<path class="cell-side" d="M23 {}h4v{}h-4z"/></svg></a></li>'
)


def block_groups(view: View) -> list[BlockGroup]:
    """Every live node under each of its models, by name."""
    kept: dict[str, list[Block]] = view.states.memo(("blocks", get_language()))
    drawn: dict[str, list[SafeString]] = defaultdict(list)
    devices: dict[str, int] = defaultdict(int)
    for name in sorted(view.states):
        if name not in kept:
            kept[name] = _blocks(view.states[name])
        for model, count, text in kept[name]:
            drawn[model].append(text)
            devices[model] += count
    # Each piece was escaped when it was made.
    return [BlockGroup(model, devices[model], mark_safe("".join(drawn[model]))) for model in sorted(drawn)]  # noqa: S308


def _blocks(node: NodeState) -> list[Block]:
    return [(row.model, len(row.cells), _drawn(row)) for row in cluster.rows_of(node)]


def _drawn(row: cluster.HeatRow) -> SafeString:
    memory, cores = _("of memory"), _("of cores held")
    return format_html(
        _BLOCK,
        row.node,
        reverse("console:node", args=[row.node]),
        f"{row.node}: {row.memory_share} % · {row.core_share} %",
        f"{row.node}: {row.memory_share} % {memory}, {row.core_share} % {cores}",
        " cell-bad" if row.marked or row.blocked else "",
        *row.fill,
        *row.side,
    )
