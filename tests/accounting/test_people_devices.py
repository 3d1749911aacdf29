"""What people change of devices and of each other: devices, holds, prices, releases, roles, tokens, login links.

Every change: one Journal row, one history row, View = reload. Every refusal names the field and leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from accounting import ledger, live_view
from accounting.models import (
    ApiToken,
    Finding,
    Hold,
    Journal,
    LoginLink,
    Price,
    Role,
    Share,
    User,
)
from accounting.services import (
    devices,
    holds,
    login_links,
    namespaces,
    people,
    prices,
    releases,
    tokens,
)
from tests.accounting import rows
from tests.accounting.changes import CARD, WHY, one_change, refused, same_view

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def ada() -> User:
    """Who acts."""
    return User.objects.create_user("ada")


# -- devices and holds


def test_device_is_cordoned_reserved_and_noted_as_one_change() -> None:
    rows.node()
    with one_change("device", rows.Device.history.model):
        devices.device_edit(cordoned=True, reserved_mib=512, note="fan", **CARD, **WHY)
    state = live_view.live().refresh().states["n1"].devices[0]
    assert state.device.cordoned
    assert state.free_memory_mib == 24576 - 512


def test_device_wrappers_change_one_thing() -> None:
    rows.node()
    devices.device_cordon(cordoned=True, **CARD, **WHY)
    row = devices.device_reserve(reserved_mib=100, **CARD, **WHY)
    assert (row.cordoned, row.reserved_mib) == (True, 100)


def test_device_reserve_lies_within_its_memory() -> None:
    rows.node()
    with refused("reserved_mib", "24576 MiB.*not bytes"):
        devices.device_reserve(reserved_mib=24577, **CARD, **WHY)
    with refused("reserved_mib", "negative"):
        devices.device_reserve(reserved_mib=-1, **CARD, **WHY)
    with refused("device"):
        devices.device_reserve(**CARD | {"uuid": "GPU-x", "reserved_mib": 1} | WHY)


def test_hold_counts_on_the_card_and_on_no_namespace_until_it_ends() -> None:
    rows.node()
    with one_change("hold", Hold.history.model):
        row = holds.hold_add(amounts=holds.Amounts(1024, 10, 1), **CARD, **WHY)
    view = live_view.live().refresh()
    assert view.states["n1"].devices[0].held.memory_mib == 1024
    assert not view.usage
    with one_change("hold", Hold.history.model):
        holds.hold_change(hold_id=row.pk, amounts=holds.Amounts(2048), **WHY)
    with one_change("hold", Hold.history.model):
        holds.hold_end(hold_id=row.pk, **WHY)
    assert not live_view.live().refresh().states["n1"].devices[0].held
    with refused("hold", "ended"):
        holds.hold_end(hold_id=row.pk, **WHY)


@pytest.mark.parametrize(
    "amounts,field",
    [
        (holds.Amounts(), "memory_mib"),
        (holds.Amounts(memory_mib=24577), "memory_mib"),
        (holds.Amounts(core_percent=101), "core_percent"),
        (holds.Amounts(slots=-1), "slots"),
    ],
)
def test_hold_takes_something_and_no_more_than_the_device(amounts: holds.Amounts, field: str) -> None:
    rows.node()
    with refused(field):
        holds.hold_add(amounts=amounts, **CARD, **WHY)


def test_hold_cannot_have_expired_already() -> None:
    rows.node()
    with refused("expires_at", "past"):
        holds.hold_add(
            amounts=holds.Amounts(1), expires_at=ledger.database_time() - timedelta(seconds=1), **CARD, **WHY
        )


# -- prices


def test_price_is_made_changed_and_taken_away() -> None:
    price: dict[str, Any] = {"vendor": "NVIDIA", "model_pattern": "*A10*", "valid_from": date(2026, 5, 1)}
    with one_change("price", Price.history.model):
        row = prices.price_set(device_hour=Decimal("1.5"), **price, **WHY)
    with one_change("price", Price.history.model):
        assert prices.price_set(device_hour=Decimal("2"), **price, **WHY).pk == row.pk
    with refused("device_hour"):
        prices.price_set(device_hour=Decimal("-1"), **price, **WHY)
    other = prices.price_set(device_hour=Decimal("1"), **price | {"valid_from": date(2026, 6, 1)}, **WHY)
    with refused("valid_from"):
        prices.price_set(device_hour=Decimal("1"), price_id=other.pk, **price, **WHY)
    with one_change("price", Price.history.model):
        prices.price_delete(price_id=row.pk, **WHY)


# -- releases


def test_release_of_an_unbound_pod_lets_it_wait() -> None:
    rows.node()
    pod = rows.pod(state="reserved")
    revision = live_view.live().refresh().clock.revision
    releases.pod_release(pod_id=pod.pk, **WHY)
    changed = Journal.objects.get(revision__gt=revision)
    assert changed.values["reason"] == WHY["reason"]
    view = live_view.live().refresh()
    assert view.pods[pod.pk].state == "waiting"
    assert not view.states["n1"].devices[0].held
    assert not view.usage
    assert not Share.objects.exists()
    same_view()


def test_release_of_a_claim_whose_pod_was_never_seen_ends_it() -> None:
    pod = rows.pod(state="claimed", uid="", claim_id="c1", claim_charges=[rows.charge()])
    assert live_view.live().refresh().usage
    releases.pod_release(pod_id=pod.pk, **WHY)
    assert not live_view.live().refresh().pods
    same_view()


def test_release_of_a_bound_pod_needs_force_and_raises_a_finding() -> None:
    rows.node()
    pod = rows.pod()
    with refused("force", "delete the pod instead"):
        releases.pod_release(pod_id=pod.pk, **WHY)
    releases.pod_release(pod_id=pod.pk, force=True, **WHY)
    finding = Finding.objects.get()
    assert finding.evidence["shares"][0]["memory_mib"] == 4096
    assert finding.evidence["reason"] == WHY["reason"]
    assert not live_view.live().refresh().states["n1"].devices[0].held
    same_view()


@pytest.mark.parametrize("state", ["binding", "waiting", "ended"])
def test_release_waits_for_a_bind_and_refuses_what_holds_nothing(state: str) -> None:
    rows.node()
    pod = rows.pod(state=state)
    with refused("pod"):
        releases.pod_release(pod_id=pod.pk, force=True, **WHY)


# -- people


def test_role_is_granted_once_and_revoked() -> None:
    namespaces.namespace_save(name="nlp", **WHY)
    grant: Callable[[], Role] = lambda: people.role_grant(role="member", user="ada", namespace="nlp", **WHY)  # noqa: E731
    row = grant()
    assert grant().pk == row.pk
    people.role_revoke(role_id=row.pk, **WHY)
    assert not Role.objects.exists()
    assert [one.kind for one in Journal.objects.filter(kind="role")] == ["role", "role"]


@pytest.mark.parametrize(
    "ask,field",
    [
        ({"role": "king", "user": "ada"}, "role"),
        ({"role": "viewer"}, "user"),
        ({"role": "viewer", "user": "ada", "group": "g"}, "user"),
        ({"role": "viewer", "user": "bob"}, "user"),
        ({"role": "viewer", "group": "g"}, "group"),
        ({"role": "viewer", "user": "ada", "tenant": "x"}, "tenant"),
        ({"role": "viewer", "user": "ada", "namespace": "x"}, "namespace"),
        ({"role": "viewer", "user": "ada", "namespace": "x", "tenant": "x"}, "namespace"),
    ],
)
def test_role_of_somebody_or_somewhere_unknown_is_refused(ask: dict[str, str], field: str) -> None:
    with refused(field):
        people.role_grant(**ask, **WHY)


def test_token_is_stored_as_a_hash_and_can_be_revoked() -> None:
    row, text = tokens.token_create(
        user="ada", name="ci", bounds=tokens.Bounds(scopes=("read",)), lives_s=60, actor="ada"
    )
    assert text not in str(ApiToken.objects.values())
    tokens.token_revoke(digest=row.digest, **WHY)
    assert not ApiToken.objects.exists()
    with refused("scopes"):
        tokens.token_create(user="ada", bounds=tokens.Bounds(scopes=("everything",)))
    with refused("user"):
        tokens.token_create(user="bob")


def test_login_link_signs_in_once(ada: User) -> None:
    secret = login_links.login_link_create(user="ada")
    assert secret not in str(LoginLink.objects.values())
    assert login_links.login_link_known(secret=secret)
    assert login_links.login_link_use(secret=secret) == ada
    assert login_links.login_link_use(secret=secret) is None
    assert login_links.login_link_use(secret="another") is None


def test_login_link_ends_after_ten_minutes() -> None:
    secret = login_links.login_link_create(user="ada")
    LoginLink.objects.update(expires_at=ledger.database_time() - timedelta(seconds=1))
    assert not login_links.login_link_known(secret=secret)
    assert login_links.login_link_use(secret=secret) is None
