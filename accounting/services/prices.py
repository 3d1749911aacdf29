"""Prices: what a whole device of a model costs per hour, from a day on."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from accounting import ledger
from accounting.models import Price
from accounting.services import edits, errors
from hami_platform.domain.sentences import phrase

LARGEST = Decimal("99999999.9999")


def price_set(
    *,
    vendor: str,
    model_pattern: str,
    device_hour: Decimal,
    currency: str = "EUR",
    valid_from: date,
    reason: str,
    actor: str = "",
    price_id: int | None = None,
    new: bool = False,
) -> Price:
    """Make or change the price of a vendor's models that match the pattern, from a day on. new: there is none yet.

    Raises InvalidInput.
    """
    reason = edits.reason_checked(reason)
    if not 0 <= device_hour <= LARGEST:
        raise errors.InvalidInput("device_hour", phrase("from 0 to %(most)s", most=str(LARGEST)))
    with ledger.transaction(cause="price_set", actor=actor) as entry:
        row = _found(entry, vendor, model_pattern, valid_from, price_id)
        edits.refuse_known(row, new=new)
        values = {
            "vendor": edits.text_checked(row, "vendor", vendor),
            "model_pattern": edits.text_checked(row, "model_pattern", model_pattern),
            "device_hour": device_hour.quantize(Decimal("0.0001")),
            "currency": edits.text_checked(row, "currency", currency).upper(),
            "valid_from": valid_from,
        }
        edits.put(entry, row, values, kind="price", reason=reason)
    return row


def price_delete(*, price_id: int, reason: str, actor: str = "") -> None:
    """Take a price away. Raises InvalidInput."""
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="price_delete", actor=actor) as entry:
        edits.take_away(entry, _by_id(entry, price_id), kind="price", reason=reason)


def _by_id(entry: ledger.Entry, price_id: int) -> Price:
    row = Price.objects.filter(cluster=entry.clock.cluster_id, pk=price_id).first()
    if row is None:
        raise errors.InvalidInput("price", phrase("is gone"))
    return row


def _found(entry: ledger.Entry, vendor: str, pattern: str, valid_from: date, price_id: int | None) -> Price:
    ours = Price.objects.filter(cluster=entry.clock.cluster_id)
    same = ours.filter(vendor=vendor.strip(), model_pattern=pattern.strip(), valid_from=valid_from).first()
    if price_id is None:
        return same or Price(cluster_id=entry.clock.cluster_id)
    row = _by_id(entry, price_id)
    if same is not None and same.pk != row.pk:
        raise errors.InvalidInput("valid_from", phrase("there is a price for these models from this day already"))
    return row
