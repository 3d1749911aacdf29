"""Many bound pods at once become the rows that one by one would have become."""

from __future__ import annotations

from typing import Any

import pytest

from accounting import live_view
from accounting.models import Finding, Node, Pod, Share, UsageInterval
from accounting.services import mass_import, observe
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]
ALLOCATED = "hami.io/vgpu-devices-allocated"
RUNNING = {"main": kube_objects.running()}


def bound(name: str, allocated: str | None = "GPU-n1,NVIDIA,1000,10:;", **more: Any) -> dict[str, Any]:
    notes = {} if allocated is None else {ALLOCATED: allocated}
    return kube_objects.pod(name, annotations=notes, **(dict[str, Any](node="n1", mem=1000) | more))


PODS = [
    *(bound(f"running-{number}", phase="Running", statuses=RUNNING) for number in range(12)),
    bound("starting"),
    bound("leaving", phase="Running", statuses=RUNNING, deleting=True),
    bound("unmanaged", None, phase="Running", statuses=RUNNING),
    bound("unreadable", "?", phase="Running", statuses=RUNNING),
    bound("elsewhere", node="n9", namespace="cv", phase="Running", statuses=RUNNING),
    bound("ended", phase="Succeeded"),
    kube_objects.pod("unbound", mem=1000),
]


def rows() -> list[Any]:
    """Everything that was written of pods, without keys and times of ours."""
    left_out = ("id", "state_at", "pod_id", "started_at", "found_at", "last_seen_at")
    found: list[Any] = []
    for model, order in ((Pod, "uid"), (Share, "pod__uid"), (UsageInterval, "pod_uid"), (Finding, "subject")):
        values = model.objects.order_by(order).values()  # type: ignore[attr-defined]
        found += ({key: value for key, value in one.items() if key not in left_out} for one in values)
    return [*found, list(Node.objects.values("name", "accounting_unknown"))]


def test_many_at_once_are_what_they_are_one_by_one(monkeypatch: pytest.MonkeyPatch, db: None) -> None:
    flow.cluster()
    with monkeypatch.context() as patch:
        patch.setattr(mass_import, "MANY", 1000)
        flow.show(*PODS)
    singly = rows()
    assert {one["state"] for one in singly if "claim_charges" in one} == {"running", "bound", "releasing", "claimed"}
    _forget()
    flow.show(*PODS)
    assert rows() == singly
    flow.view_is_true()
    assert flow.show(*PODS) == 0, "a second look changes nothing"


def test_what_the_database_refuses_of_one_does_not_keep_the_others_out() -> None:
    flow.cluster()
    flow.show(bound("x" * 300, phase="Running", statuses=RUNNING), *PODS)
    assert Pod.objects.filter(name="running-11", state="running").exists()
    flow.view_is_true()


def test_pods_that_are_known_are_left_alone() -> None:
    flow.cluster()
    flow.show(*PODS)
    observe.pods_gone(["uid-running-0"])
    assert flow.show(*PODS) == 0, "an ended pod does not come back"


def _forget() -> None:
    """The same cluster, of whose pods nothing is known."""
    from accounting import ledger

    with ledger.transaction(cause="forget") as entry:
        for model in (Share, UsageInterval, Finding, Pod):
            model.objects.all().delete()  # type: ignore[attr-defined]
        Node.objects.update(accounting_unknown="")
        entry.record("node", "n1")
    live_view.live().reload()
