"""Keeping a Lease fresh."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from hami_platform.kube import errors, leases, objects
from tests.kube import stub

NOW = datetime(2026, 8, 21, 8, 0, tzinfo=UTC)
STAMP = "2026-08-21T08:00:00.000000Z"


def renew(tmp_path: Path, *answers: stub.Answer) -> tuple[objects.Lease, Any]:
    with stub.StubApi(*answers) as api:
        kube = stub.connect(tmp_path, api.url)
        lease = leases.renew(kube, namespace="ns", name="n1", holder="me", duration_s=40, now=NOW)
    return lease, api.seen[-1]


def lease(holder: str, transitions: int = 2) -> stub.Answer:
    spec = {"holderIdentity": holder, "acquireTime": "2026-01-01T00:00:00.000000Z", "leaseTransitions": transitions}
    return stub.reply({"metadata": {"name": "n1", "resourceVersion": "5"}, "spec": spec})


def test_a_missing_lease_is_made(tmp_path: Path) -> None:
    _, seen = renew(tmp_path, stub.refuse(404, "NotFound"), stub.reply({}, 201))
    assert seen.method == "POST"
    assert seen.body["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 40,
        "acquireTime": STAMP,
        "renewTime": STAMP,
        "leaseTransitions": 0,
    }


def test_our_lease_is_stamped_and_keeps_its_beginning(tmp_path: Path) -> None:
    _, seen = renew(tmp_path, lease("me"), stub.reply({}))
    assert (seen.method, seen.body["metadata"]["resourceVersion"]) == ("PUT", "5")
    assert seen.body["spec"]["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert seen.body["spec"]["renewTime"] == STAMP
    assert seen.body["spec"]["leaseTransitions"] == 2


def test_taking_over_is_a_transition(tmp_path: Path) -> None:
    _, seen = renew(tmp_path, lease("other"), stub.reply({}))
    assert (seen.body["spec"]["acquireTime"], seen.body["spec"]["leaseTransitions"]) == (STAMP, 3)


def test_two_writers_of_one_lease_notice(tmp_path: Path) -> None:
    with pytest.raises(errors.Conflict):
        renew(tmp_path, lease("me"), stub.refuse(409, "Conflict"))


def test_a_stamp_is_in_utc() -> None:
    assert leases.micro_time(NOW.astimezone(timezone(timedelta(hours=8)))) == STAMP
