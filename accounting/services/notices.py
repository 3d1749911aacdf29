"""Tells another system by HTTP when something begins and ends: a limit or a budget nearly or wholly used, a pod that
waits long, a finding.

What stands now is compared with what was told; what differs is told until it is understood, so a receiver may hear of a
thing twice, never not at all. Without an address nothing is kept. Must not know: what the receiver does with it.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from accounting import ledger, live_view
from accounting.models import Finding, Notice, Refusal
from accounting.selectors import access, budgets, quota_bars
from hami_platform import env, logs
from hami_platform.domain.view import View

log = logs.get(__name__)

NEARLY_PERCENT = 80
AT_ONCE = 100
TIMEOUT_S = 5.0
SIGNATURE = "X-Hami-Signature"
BEGINS, ENDS = "begins", "ends"


@dataclass(frozen=True, slots=True)
class Standing:
    """Something that stands now. text: a sentence with numbers."""

    kind: str
    subject: str
    text: str


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The address was chosen by an operator; nobody else may choose another."""

    def redirect_request(self, *_args: Any, **_more: Any) -> None:
        """None: the redirection is the answer, and no success."""
        return


def notices_send() -> int:
    """Tell what is new and what is over; the number of messages that were understood."""
    settings = env.current()
    if not settings.notify_url:
        return 0
    _compare()
    told = 0
    for row in _untold():
        event = BEGINS if row.ended_at is None else ENDS
        if not _delivered(settings.notify_url, settings.notify_secret, _message(row, event)):
            break  # the others would fare alike; the next tick tries again
        Notice.objects.filter(pk=row.pk).update(**{"told_begin": True} if event == BEGINS else {"told_end": True})
        told += 1
    _forget()
    return told


def standing(view: View, now: datetime) -> Iterator[Standing]:
    """All that is worth telling now."""
    for bar in quota_bars.all_bars(view, access.ALL):
        kind = "quota-full" if bar.held >= bar.limit else "quota-nearly-full"
        if bar.percent >= NEARLY_PERCENT:
            text = f"{bar.rule}: {bar.held} of {bar.limit} {bar.unit}"
            yield Standing(kind, f"{bar.rule} {bar.resource}", text)
    yield from _budgets(view, now)
    cluster = ledger.cluster_id()
    late = now - timedelta(minutes=env.current().notify_pending_m)
    for refusal in Refusal.objects.filter(cluster=cluster, since__lte=late):
        pod = view.pod(refusal.pod_uid)
        if pod is not None and pod.state in ("waiting", "claimed"):
            yield Standing(
                "pod-waits", f"{pod.namespace}/{pod.name}", f"since {refusal.since:%H:%M} UTC: {refusal.summary}"
            )
    for finding in Finding.objects.filter(cluster=cluster, repaired_at=None):
        yield Standing(f"finding-{finding.kind}", finding.subject, finding.message)


def _budgets(view: View, now: datetime) -> Iterator[Standing]:
    """Each of both once in a period: that it is spent does not end that it was nearly spent."""
    for one in budgets.standings(view, access.ALL):
        if not one.period.since <= now < one.period.until:
            continue
        for burn in one.burns:
            unit = "device hours" if burn.unit == budgets.HOURS else burn.unit
            subject = f"{one.rule} {unit} until {one.period.last_day}"
            text = f"{one.rule}: {float(burn.used):.2f} of {float(burn.limit):.2f} {unit} until {one.period.last_day}"
            if burn.state:
                yield Standing("budget-nearly-spent", subject, text)
            if burn.state == "spent":
                yield Standing("budget-spent", subject, text)


def _compare() -> None:
    """Rows for what has begun; an end for what does not stand any more."""
    cluster, now = ledger.cluster_id(), ledger.database_time()
    stands = {(one.kind, one.subject): one for one in standing(live_view.live().refresh(), now)}
    known = {(row.kind, row.subject): row for row in Notice.objects.filter(cluster=cluster, ended_at=None)}
    fresh = [
        Notice(cluster_id=cluster, kind=kind[:48], subject=subject[:400], text=one.text[:1000], begun_at=now)
        for (kind, subject), one in stands.items()
        if (kind, subject) not in known
    ]
    Notice.objects.bulk_create(fresh, ignore_conflicts=True)
    over = [row.pk for key, row in known.items() if key not in stands]
    # What ended before anybody was told of it need not be told at all.
    Notice.objects.filter(pk__in=over, told_begin=False).delete()
    Notice.objects.filter(pk__in=over).update(ended_at=now)


def _untold() -> list[Notice]:
    ours = Notice.objects.filter(cluster=ledger.cluster_id()).order_by("pk")
    begun = list(ours.filter(told_begin=False)[:AT_ONCE])
    return (begun + list(ours.filter(told_begin=True, ended_at__isnull=False, told_end=False)[:AT_ONCE]))[:AT_ONCE]


def _forget() -> None:
    Notice.objects.filter(cluster=ledger.cluster_id(), told_end=True).delete()


def _message(row: Notice, event: str) -> bytes:
    at = row.ended_at if row.ended_at is not None and event == ENDS else row.begun_at
    told = {
        "event": event,
        "kind": row.kind,
        "subject": row.subject,
        "text": row.text,
        "at": at.isoformat().replace("+00:00", "Z"),
        "cluster": env.current().cluster,
        "id": row.pk,
    }
    return json.dumps(told, ensure_ascii=False).encode()


def signature(secret: str, body: bytes) -> str:
    """`sha256=<hex>` of the body by the shared secret: the receiver makes the same and compares."""
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


def _delivered(url: str, secret: str, body: bytes) -> bool:
    headers = {"Content-Type": "application/json"} | ({SIGNATURE: signature(secret, body)} if secret else {})
    request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310 - the scheme is checked at start
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT_S) as answer:
            return bool(200 <= answer.status < 300)
    except (OSError, http.client.HTTPException) as fault:
        log.warning("notice_undelivered", why=str(fault))
        return False
