"""What comes due by the passage of time, and that it is journaled once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounting import guard, ledger, live_view
from accounting.models import Finding, Hold, NodeLock, Pod, Quota, Refusal
from accounting.services import bindings, errors, flights, leases, observe, quotas
from hami_platform.domain import quota as domain
from tests import builders
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]


def past(seconds: float = 1) -> object:
    """A database time that lies so far back."""
    return ledger.database_time() - timedelta(seconds=seconds)


def overdue(model: type, **columns: object) -> None:
    """Set columns without the ledger noticing, as time would."""
    with guard.writing():
        model.objects.update(**columns)  # type: ignore[attr-defined]


def test_a_claim_whose_pod_never_came_falls() -> None:
    flow.cluster()
    flow.admit(kube_objects.pod(mem=4000))
    overdue(Pod, lease_until=past())
    assert leases.leases_tick() == 1
    assert flow.charged_mib() == 0
    assert leases.leases_tick() == 0
    flow.view_is_true()


def test_a_claim_whose_pod_was_seen_stays() -> None:
    flow.cluster()
    pod = kube_objects.pod(mem=4000)
    flow.admit(pod)
    flow.show(pod)
    assert Pod.objects.get().lease_until is None
    assert leases.leases_tick() == 0
    assert flow.charged_mib() == 4000


def test_a_lapsed_reservation_frees_the_device_and_keeps_the_claim() -> None:
    flow.cluster()
    pod = kube_objects.pod(mem=4000)
    flow.admit(pod)
    flow.filter_(pod)
    overdue(Pod, lease_until=past())
    leases.leases_tick()
    assert (flow.used_mib(), flow.charged_mib(), flow.state(pod)) == (0, 4000, "claimed")
    plan = flow.bind(pod)
    assert isinstance(plan, bindings.BindingPlan), "free again: taken again"
    assert flow.used_mib() == 4000


def test_a_lapsed_reservation_is_not_taken_again_where_the_device_is_gone() -> None:
    flow.cluster()
    pod = kube_objects.pod(mem=20000)
    flow.admit(pod)
    flow.filter_(pod)
    overdue(Pod, lease_until=past())
    leases.leases_tick()
    flow.run(kube_objects.pod("p2", mem=20000))
    refused = flow.bind(pod)
    assert isinstance(refused, bindings.BindRefused)
    assert flow.used_mib() == 20000


def test_quotas_and_holds_begin_and_end_by_themselves() -> None:
    flow.cluster()
    flow.limit(memory_mib=100)
    overdue(Quota, valid_until=past())
    leases.leases_tick()
    assert flow.admit(kube_objects.pod(mem=4000)).granted
    overdue(Quota, valid_until=None)
    leases.leases_tick()
    assert not flow.admit(kube_objects.pod("p2", mem=4000)).granted
    assert not Hold.objects.exists()
    flow.view_is_true()


def test_a_lock_older_than_30_s_takes_its_node_out() -> None:
    flow.cluster()
    pod = kube_objects.pod(mem=4000)
    flow.admit(pod)
    flow.filter_(pod)
    flow.bind(pod)
    overdue(NodeLock, first_seen_at=past(31))
    leases.leases_tick()
    other = kube_objects.pod("p2", mem=4000)
    flow.admit(other)
    assert flow.filter_(other).reason == "NodeLocked"
    bindings.binding_ended(uid="uid-p1")
    assert flow.filter_(other).node == "n1"


def test_a_lock_older_than_twice_the_timeout_is_an_alarm_until_it_falls() -> None:
    """Also where nothing else comes due in that moment."""
    flow.cluster()
    flow.run(kube_objects.pod(mem=4000, inits=[kube_objects.container("load", mem=1)]))  # bound, not started
    for age_s, alarms in ((31, 0), (599, 0), (601, 1), (700, 1)):
        overdue(NodeLock, first_seen_at=past(age_s))
        leases.leases_tick()
        assert Finding.objects.filter(kind="node-lock-stuck", subject="n1", repaired_at=None).count() == alarms
    observe.pods_gone(["uid-p1"])
    leases.leases_tick()
    assert Finding.objects.get().repair == "the lock has fallen"


def test_a_pod_that_can_never_run_gives_its_claim_up_and_gets_it_back_with_a_fit() -> None:
    flow.cluster()
    pod = kube_objects.pod(mem=30000)
    flow.admit(pod)
    flow.show(pod)
    Refusal.objects.create(
        cluster_id=ledger.cluster_id(),
        pod_uid="uid-p1",
        at=past(),
        since=past(900),
        never_fits=True,
        never_fits_since=past(601),
    )
    leases.leases_tick()
    assert (flow.charged_mib(), flow.state(pod)) == (0, "waiting")
    flow.observe_nodes(kube_objects.node("big", builders.device("GPU-big", memory_mib=40000)))
    assert flow.filter_(pod).node == "big"
    assert flow.charged_mib() == 30000


def test_one_holder_has_a_lease_and_each_change_of_holder_raises_the_epoch() -> None:
    first = flights.lease_take(name="job", holder="a", ttl_s=10)
    assert flights.lease_take(name="job", holder="b", ttl_s=10) is None
    assert flights.lease_take(name="job", holder="a", ttl_s=10) == first
    flights.lease_drop(name="job", holder="a")
    assert flights.lease_take(name="job", holder="b", ttl_s=10) == (first or 0) + 1


def test_a_write_under_an_old_epoch_is_refused() -> None:
    epoch = flights.lease_take(name=ledger.WATCHER, holder="a", ttl_s=10)
    flights.lease_drop(name=ledger.WATCHER, holder="a")
    flights.lease_take(name=ledger.WATCHER, holder="b", ttl_s=10)
    with pytest.raises(ledger.Fenced), ledger.transaction(cause="late", fence=epoch):
        pass
    assert live_view.live().refresh().clock.revision


def test_limits_for_a_while_go_back_by_themselves_once() -> None:
    flow.cluster()
    flow.limit(memory_mib=4000)
    later = ledger.database_time() + timedelta(hours=1)
    longer = later + timedelta(hours=1)
    for mib, until in ((9000, later), (12000, longer)):
        quotas.quota_set(namespace="nlp", limits=domain.Limits(memory_mib=mib), returns_at=until, reason="a paper")
    assert leases.leases_tick() == 0
    overdue(Quota, returns_at=past())
    assert leases.leases_tick() == 1
    row = Quota.objects.get()
    assert (row.memory_mib, row.returns_at, row.returns_to, row.reason) == (4000, None, {}, quotas.RETURNED)
    assert row.history.first().history_change_reason == quotas.RETURNED
    assert leases.leases_tick() == 0
    flow.view_is_true()


def test_limits_set_for_good_do_not_go_back() -> None:
    flow.cluster()
    flow.limit(memory_mib=4000)
    later = ledger.database_time() + timedelta(hours=1)
    quotas.quota_set(namespace="nlp", limits=domain.Limits(memory_mib=9000), returns_at=later, reason="for now")
    quotas.quota_set(namespace="nlp", limits=domain.Limits(memory_mib=9000), reason="for good")
    row = Quota.objects.get()
    assert (row.returns_at, row.returns_to) == (None, {})


def test_a_while_must_end_later_and_needs_limits_to_go_back_to() -> None:
    flow.cluster()
    now = ledger.database_time()
    for text in ("nothing to go back to", "in the past"):
        with pytest.raises(errors.InvalidInput, match=text):
            quotas.quota_set(namespace="nlp", limits=domain.Limits(devices=1), returns_at=now, reason="test")
        flow.limit(devices=1)
