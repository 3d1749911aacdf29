"""What people change: tenants, namespaces, quotas, devices, holds, prices, roles, releases, login links.

Every change: one Journal row, one history row, View = reload. Every refusal names the field and leaves no trace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    Namespace,
    Price,
    Quota,
    Role,
    Share,
    Tenant,
    User,
)
from accounting.services import (
    devices,
    errors,
    holds,
    login_links,
    namespaces,
    people,
    prices,
    quotas,
    releases,
    tenants,
)
from hami_platform.domain.quota import Limits, Selector
from tests.accounting import rows

pytestmark = pytest.mark.django_db

WHY = {"reason": "asked by the team", "actor": "ada"}
CARD = {"node": "n1", "vendor": "NVIDIA", "uuid": "GPU-n1-0"}


@contextmanager
def one_change(kind: str, history: Any) -> Iterator[None]:
    """The block writes one Journal row of this kind and one history row, and the folded View equals a loaded one."""
    live_view.live().refresh()
    revision, before = live_view.live().now.clock.revision, history.objects.count()
    yield
    changed = Journal.objects.filter(revision__gt=revision)
    assert [(row.kind, row.actor) for row in changed] == [(kind, "ada")]
    assert changed[0].values["reason"] == WHY["reason"]
    assert history.objects.count() == before + 1
    newest = history.objects.latest("history_id")
    assert newest.history_change_reason == WHY["reason"]
    assert newest.history_user_id == User.objects.get(username="ada").pk
    same_view()


def same_view() -> None:
    """Folding the Journal gives what loading the rows gives, field by field."""
    folded = live_view.live().refresh()
    loaded = live_view.live().reload()
    for field in dataclasses.fields(folded):
        assert getattr(folded, field.name) == getattr(loaded, field.name), field.name


@contextmanager
def refused(field: str, says: str = "") -> Iterator[None]:
    """The block raises InvalidInput for the field and changes nothing."""
    before = Journal.objects.count()
    with pytest.raises(errors.InvalidInput, match=says or None) as caught:
        yield
    assert caught.value.field == field
    assert Journal.objects.count() == before


@pytest.fixture(autouse=True)
def ada() -> User:
    """Who acts."""
    return User.objects.create_user("ada")


def nlp_quota(**changes: Any) -> Quota:
    """The default quota of nlp: 40 GiB."""
    return quotas.quota_set(**{"namespace": "nlp", "limits": Limits(memory_mib=40960)} | WHY | changes)


# -- tenants and namespaces


def test_tenant_is_made_and_renamed_as_one_change_each() -> None:
    with one_change("tenant", Tenant.history.model):
        row = tenants.tenant_save(name="labs", **WHY)
    with one_change("tenant", Tenant.history.model):
        tenants.tenant_save(tenant_id=row.pk, name="research", note="since May", **WHY)
    assert [(one.name, one.note) for one in Tenant.objects.all()] == [("research", "since May")]


def test_tenant_saved_as_it_is_writes_nothing() -> None:
    tenants.tenant_save(name="labs", **WHY)
    before = Journal.objects.count()
    tenants.tenant_save(name="labs", **WHY)
    assert Journal.objects.count() == before


def test_tenant_cannot_lie_under_itself() -> None:
    top = tenants.tenant_save(name="top", **WHY)
    tenants.tenant_save(name="mid", parent="top", **WHY)
    tenants.tenant_save(name="low", parent="mid", **WHY)
    with refused("parent", "loop"):
        tenants.tenant_save(tenant_id=top.pk, name="top", parent="low", **WHY)
    with refused("parent", "loop"):
        tenants.tenant_save(tenant_id=top.pk, name="top", parent="top", **WHY)


def test_tenant_refuses_unknown_parents_and_bad_or_taken_names() -> None:
    tenants.tenant_save(name="labs", **WHY)
    other = tenants.tenant_save(name="other", **WHY)
    with refused("parent"):
        tenants.tenant_save(name="x", parent="nobody", **WHY)
    with refused("name"):
        tenants.tenant_save(name="not a slug", **WHY)
    with refused("name", "already"):
        tenants.tenant_save(tenant_id=other.pk, name="labs", **WHY)
    with refused("tenant", "gone"):
        tenants.tenant_save(tenant_id=99999, name="x", **WHY)


def test_tenant_in_use_is_not_deleted_and_says_who_needs_it() -> None:
    row = tenants.tenant_save(name="labs", **WHY)
    namespaces.namespace_save(name="nlp", tenant="labs", **WHY)
    with refused("", "namespace nlp"):
        tenants.tenant_delete(tenant_id=row.pk, **WHY)
    namespaces.namespace_save(name="nlp", tenant="", **WHY)
    with one_change("tenant", Tenant.history.model):
        tenants.tenant_delete(tenant_id=row.pk, **WHY)


def test_namespace_gets_tenant_and_mode() -> None:
    tenants.tenant_save(name="labs", **WHY)
    with one_change("namespace", Namespace.history.model):
        namespaces.namespace_save(name="nlp", tenant="labs", mode="wait", **WHY)
    with one_change("namespace", Namespace.history.model):
        namespaces.namespace_save(name="nlp", mode="warn", **WHY)
    assert live_view.live().refresh().namespaces["nlp"].mode == "warn"
    with refused("mode"):
        namespaces.namespace_save(name="nlp", mode="sometimes", **WHY)
    with refused("tenant"):
        namespaces.namespace_save(name="nlp", tenant="nobody", **WHY)


def test_namespace_with_pods_is_not_deleted() -> None:
    rows.node()
    pod = rows.pod()
    with refused("", "1 pods"):
        namespaces.namespace_delete(name="nlp", **WHY)
    releases.pod_release(pod_id=pod.pk, force=True, **WHY)
    with one_change("namespace", Namespace.history.model):
        namespaces.namespace_delete(name="nlp", **WHY)


# -- quotas


def test_quota_is_made_changed_and_lifted() -> None:
    namespaces.namespace_save(name="nlp", **WHY)
    with one_change("quota", Quota.history.model):
        row = nlp_quota()
    with one_change("quota", Quota.history.model):
        changed = nlp_quota(limits=Limits(memory_mib=1000, devices=0))
    assert (changed.pk, changed.version, changed.devices) == (row.pk, 2, 0)
    with one_change("quota", Quota.history.model):
        quotas.quota_delete(quota_id=row.pk, **WHY)
    assert not live_view.live().refresh().quotas


def test_quota_on_an_unknown_namespace_makes_its_row() -> None:
    nlp_quota()
    assert set(live_view.live().refresh().namespaces) == {"nlp"}
    same_view()


def test_quota_saved_as_it_is_keeps_its_version() -> None:
    nlp_quota()
    assert nlp_quota(reason="another reason").version == 1


@pytest.mark.parametrize("field", ["memory_mib", "pod_memory_mib", "device_memory_mib"])
def test_quota_in_bytes_is_refused_with_the_number_of_mib(field: str) -> None:
    with refused(field, "MiB, not bytes: 16 GiB is 16384.*write 24576"):
        nlp_quota(limits=Limits(**{field: 24 * 2**30}))


def test_quota_sum_may_be_as_large_as_the_cluster() -> None:
    rows.node(count=2, memory_mib=8_000_000)
    nlp_quota(limits=Limits(memory_mib=16_000_000))
    with refused("memory_mib"):
        nlp_quota(limits=Limits(memory_mib=16_000_001))


def test_quota_refuses_negative_and_absurd_limits() -> None:
    with refused("devices", "negative"):
        nlp_quota(limits=Limits(devices=-1))
    with refused("core_percent", "at most"):
        nlp_quota(limits=Limits(core_percent=2**31))


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_quota_needs_a_reason(reason: str) -> None:
    with refused("reason"):
        nlp_quota(reason=reason)


def test_quota_change_of_a_version_that_is_gone_is_refused() -> None:
    nlp_quota()
    nlp_quota(limits=Limits(memory_mib=1), expected_version=1)
    with refused("version", "you saw version 1, it is now 2"):
        nlp_quota(limits=Limits(memory_mib=2), expected_version=1)
    with refused("name", "already"):
        nlp_quota(limits=Limits(memory_mib=2), expected_version=0)


def test_quota_binds_only_within_its_validity() -> None:
    now = ledger.database_time()
    hour = timedelta(hours=1)
    assert not nlp_quota(name="next", valid_from=now + hour).in_force
    assert not nlp_quota(name="old", valid_until=now - hour).in_force
    assert nlp_quota(name="now", valid_from=now - hour, valid_until=now + hour).in_force
    with refused("valid_until"):
        nlp_quota(name="odd", valid_from=now, valid_until=now)


def test_quota_has_one_scope_and_stays_there() -> None:
    tenants.tenant_save(name="labs", **WHY)
    row = nlp_quota()
    with refused("namespace"):
        nlp_quota(tenant="labs")
    with refused("namespace"):
        nlp_quota(namespace="")
    with refused("tenant", "stays"):
        nlp_quota(namespace="", tenant="labs", quota_id=row.pk)
    with refused("tenant"):
        nlp_quota(namespace="", tenant="nobody")


def test_quota_of_a_tenant_with_a_selector() -> None:
    tenants.tenant_save(name="labs", **WHY)
    with one_change("quota", Quota.history.model):
        nlp_quota(namespace="", tenant="labs", name="a100", selector=Selector("NVIDIA", "*A100*"))
    rule = next(iter(live_view.live().refresh().quotas.values())).rule
    assert (rule.name, rule.selector) == ("labs/a100", Selector("NVIDIA", "*A100*"))


def test_quota_renamed_by_id_and_never_onto_another() -> None:
    row = nlp_quota()
    nlp_quota(name="second")
    with refused("name", "already"):
        nlp_quota(quota_id=row.pk, name="second")
    assert nlp_quota(quota_id=row.pk, name="first").pk == row.pk


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
    row, text = people.token_create(user="ada", name="ci", scopes=["read"], lives_s=60, actor="ada")
    assert text not in str(ApiToken.objects.values())
    people.token_revoke(digest=row.digest, **WHY)
    assert not ApiToken.objects.exists()
    with refused("scopes"):
        people.token_create(user="ada", scopes=["everything"])
    with refused("user"):
        people.token_create(user="bob")


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
