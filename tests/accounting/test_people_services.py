"""What people change of teams: tenants, namespaces and their quotas.

Every change: one Journal row, one history row, View = reload. Every refusal names the field and leaves no trace.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounting import ledger, live_view
from accounting.models import (
    Journal,
    Namespace,
    Quota,
    Tenant,
    User,
)
from accounting.services import (
    namespaces,
    quotas,
    releases,
    tenants,
)
from hami_platform.domain.quota import Limits, Selector
from tests.accounting import rows
from tests.accounting.changes import WHY, nlp_quota, one_change, refused, same_view

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def ada() -> User:
    """Who acts."""
    return User.objects.create_user("ada")


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
