"""Numbers and times as the console writes them."""

from __future__ import annotations

from datetime import datetime

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from accounting.selectors import pods

register = template.Library()


@register.filter
def grouped(number: int | None) -> str:
    """`24 576`; an en dash for none."""
    return "–" if number is None else pods.grouped(int(number))


@register.filter
def gib(mib: int | None) -> str:
    """`24.0 GiB`, as a second reading of MiB."""
    return "" if mib is None else f"{mib / 1024:,.1f} GiB"


@register.filter
def when(at: datetime | None) -> SafeString | str:
    """A time that the page shows as an age, and in full on hover; UTC without scripts."""
    if at is None:
        return "–"
    return format_html(
        '<time datetime="{}" title="{} UTC">{} UTC</time>',
        at.isoformat(),
        f"{at:%Y-%m-%d %H:%M:%S}",
        f"{at:%d %b %H:%M:%S}",
    )
