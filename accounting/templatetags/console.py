"""Numbers and times as the console writes them."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Any

from django import template
from django.utils import dateformat
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, pgettext

from accounting.selectors import pods, words
from accounting.selectors.usage_report import Line

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
def hours(number: Fraction) -> str:
    """`1 234.25`: hours, to the hundredth."""
    hundredths = round(number * 100)
    return f"{pods.grouped(hundredths // 100)}.{hundredths % 100:02}"


@register.filter
def money(cents: int | None) -> str:
    """`1 234.56`; an en dash for none."""
    return "–" if cents is None else f"{pods.grouped(cents // 100)}.{cents % 100:02}"


@register.filter
def cents_of(line: Line, currency: str) -> int | None:
    """What a line of a report costs in a currency."""
    return line.cents.get(currency)


@register.filter
def unused_cents_of(line: Line, currency: str) -> int | None:
    """What of a line's cost was held and, as was measured, not used; nothing where nothing was measured."""
    return line.unused_cents.get(currency) if line.measured_us else None


@register.filter
def hour_mib(mib_s: int) -> int:
    """MiB-hours of MiB-seconds."""
    return mib_s // 3600


@register.filter
def percent_of(permille: int) -> str:
    """`12.5` of 125."""
    return f"{permille / 10:.1f}"


@register.filter
def told(text: object) -> str:
    """A word or sentence of a row in the reader's language."""
    return words.told(str(text))


@register.filter
def translated(text: str) -> str:
    """A text that code, and not a row, says in English."""
    return gettext(text)


@register.simple_tag(name="told")
def told_as(text: object) -> str:
    """The same, to be kept: `{% told bar.unit as unit %}`."""
    return words.told(str(text))


@register.simple_tag(takes_context=True)
def csv(context: Any, table: str, about: str) -> SafeString:
    """A link to a table of this page as CSV, with the page's filters. about: what it is of, for who hears it."""
    query = context["request"].GET.copy()
    for name, value in (("after", ""), ("format", "csv"), ("table", table)):
        query.pop(name, None)
        if value:
            query[name] = value
    link = '<p class="csv"><a href="?{}" download aria-label="CSV: {}">CSV</a></p>'
    return format_html(link, query.urlencode(), about)


@register.filter
def when(at: datetime | None) -> SafeString | str:
    """A time that the page shows as an age, and in full on hover; UTC without scripts."""
    if at is None:
        return "–"
    return format_html(
        '<time datetime="{}" title="{} UTC">{} UTC</time>',
        at.isoformat(),
        f"{at:%Y-%m-%d %H:%M:%S}",
        dateformat.format(at, pgettext("day and time", "d M H:i:s")),
    )
