"""A large cluster as one block for each node. What is drawn of a node is kept as long as the node stays the same.

Must not know requests: a block shows amounts, and no holders.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from accounting.selectors import cluster, shades
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.view import View


@dataclass(frozen=True, slots=True)
class BlockGroup:
    """All nodes with a model: how many devices, and their blocks."""

    model: str
    devices: int
    drawn: SafeString


Block = tuple[str, int, str]
"""(model, devices of it on the node, what is drawn)."""
Blocks = Callable[[str, NodeState], Iterable[Block]]

_BLOCK = (
    '<li><a class="cell" id="n-{}" href="{}" title="{}" aria-label="{}"><svg width="28" height="28" viewBox="0 0 28 28"'
    ' aria-hidden="true"><path class="cell-back{}" d="M.5 .5h27v27h-27z"/><path class="cell-fill" d="M1 {}h21v{}H1z"/>'
    '<path class="cell-side" d="M23 {}h4v{}h-4z"/></svg></a></li>'
)


def block_groups(view: View) -> list[BlockGroup]:
    """Every live node under each of its models, by name: amounts of memory and cores."""
    kept: dict[str, list[Block]] = view.states.memo(("blocks", get_language()))

    def drawn(name: str, node: NodeState) -> list[Block]:
        if name not in kept:
            kept[name] = [(row.model, len(row.cells), _drawn(row)) for row in cluster.rows_of(node)]
        return kept[name]

    return _grouped(view, drawn)


def shaded_groups(view: View, choice: shades.Choice) -> list[BlockGroup]:
    """The same, each with the colour and the number of a choice. Drawn anew each time: readings are not the node's."""
    kept: dict[str, list[tuple[cluster.HeatRow, str]]] = view.states.memo("block-rows")
    told = shades.summaries() if choice.name in shades.READ else {}

    def drawn(name: str, node: NodeState) -> Iterable[Block]:
        if name not in kept:
            kept[name] = [(row, _link(name)) for row in cluster.rows_of(node)]
        read = told.get(name, {})
        for row, link in kept[name]:
            shade = shades.of_row(choice, row, read.get(row.model, shades.NOTHING_READ))
            yield row.model, len(row.cells), _shaded(name, row, link, shade)

    return _grouped(view, drawn)


def _grouped(view: View, blocks: Blocks) -> list[BlockGroup]:
    drawn: dict[str, list[str]] = defaultdict(list)
    devices: dict[str, int] = defaultdict(int)
    for name in sorted(view.states):
        for model, count, text in blocks(name, view.states[name]):
            drawn[model].append(text)
            devices[model] += count
    # Each piece was escaped when it was made.
    return [BlockGroup(model, devices[model], mark_safe("".join(drawn[model]))) for model in sorted(drawn)]  # noqa: S308


def _link(name: str) -> str:
    """The beginning of a block, escaped; `format_html` for each block anew costs more than all the rest."""
    return format_html('<li><a class="cell" id="n-{}" href="{}" ', name, reverse("console:node", args=[name]))


def _shaded(name: str, row: cluster.HeatRow, link: str, shade: cluster.Shade) -> str:
    words = escape(f"{name}: {shade.words}")
    css = f"cell-back {shade.css}{' cell-bad' if row.marked or row.blocked else ''}"
    return (
        f'{link}title="{words}" aria-label="{words}"><svg width="28" height="28" viewBox="0 0 28 28"'
        f' aria-hidden="true"><path class="{css}" d="M.5 .5h27v27h-27z"/>'
        f'<text class="cell-number" x="14" y="18">{shade.text}</text></svg></a></li>'
    )


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
