"""A form's whole number of MiB: who writes 16Gi, or bytes, is told the right number. It must not know any model."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext

from hami_platform.domain import errors, units


class MibField(forms.IntegerField):
    """MiB, entered as text: a number field of a browser swallows the letters that say what was meant."""

    widget = forms.TextInput

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        """Digits on the keyboards of telephones."""
        return {"inputmode": "numeric", "size": "14"}

    def to_python(self, value: Any) -> int | None:
        """The number. Raises ValidationError with a hint for what is a quantity of something else."""
        try:
            return super().to_python(value)
        except ValidationError as fault:
            raise ValidationError(hinted(value) or fault.messages) from fault


def hinted(value: Any) -> str:
    """`16Gi` → "the unit is MiB: write 16384"; nothing for what is no quantity at all."""
    text = str(value).strip()
    try:
        units.whole(text)
    except errors.InvalidQuantity:
        return ""
    return f"{text}: {units.hint(text).text(gettext)}"
