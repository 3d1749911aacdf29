"""Drift that others cause is found, repaired where that is safe, and shown: as a finding, in metrics, by an event.

| drift | found and repaired by | seen as |
|---|---|---|
| leaked: a deletion that the watcher never heard of | `pods` tick | drift-leaked, released |
| leaked: a pod that ended unheard | `pods` tick | drift-leaked, released |
| missing: a pod was bound behind the watcher | `pods` tick | drift-missing, counted |
| changed: bound elsewhere, or containers ended unheard | `pods` tick | drift-changed, brought in line |
| changed: its annotations state other devices | self-check | drift-changed, open: the rows are the truth |
| view: this process's copy is wrong | self-check | drift-view, loaded anew; the rows in question by every process |
| nothing: a watcher was about to write it, or none is in office | | nothing |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from accounting import ledger, live_view
from accounting.models import Finding
from accounting.services import audit, drift, finding_events, findings, flights, observe, reconcile, seen
from hami_platform.domain.view import View
from hami_platform.simulator.client import MERGE_PATCH
from tests.accounting import flow, kube_objects, simulated
from tests.accounting.simulated import World

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]
CONFIG = flow.CONFIG
ALLOCATED = "hami.io/vgpu-devices-allocated"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """One node, compared; a watcher is in office, and hears nothing. Nobody waits for it in vain."""
    monkeypatch.setattr(drift, "SETTLE_S", 0.0)
    with simulated.world(tmp_path) as made:
        made.node()
        reconcile.everything_reconcile(made.api, config=CONFIG)
        flights.lease_take(name=ledger.WATCHER, holder="deaf", ttl_s=3600)
        yield made


def tick(world: World) -> None:
    reconcile.pods_reconcile(world.api, config=CONFIG)


def running(world: World, name: str = "p", **amounts: Any) -> None:
    """A pod that the ledger knows to be on n1."""
    world.placed(name, **(amounts or {"mem": 8000}))
    observe.pods_observe([_seen(world, name)], config=CONFIG)


def _seen(world: World, name: str) -> Any:
    return seen.from_object(world.look(name), CONFIG)


def found() -> list[tuple[str, str, str]]:
    return list(Finding.objects.order_by("pk").values_list("kind", "subject", "repair"))


def test_a_deletion_that_nobody_heard_of_is_released_and_shown(world: World) -> None:
    running(world)
    world.delete("p")
    tick(world)
    assert flow.used_mib() == 0
    assert found() == [("drift-leaked", "nlp/p", "released")]
    assert Finding.objects.get().evidence["held"] == [["GPU-n1", 8000, 0]]


def test_an_end_that_nobody_heard_of_is_released_and_shown(world: World) -> None:
    running(world)
    world.status("p", phase="Succeeded")
    tick(world)
    assert (flow.used_mib(), found()) == (0, [("drift-leaked", "nlp/p", "released")])


def test_a_pod_bound_behind_the_watcher_is_counted_and_shown(world: World) -> None:
    world.pod("p", mem=8000)
    world.bind("p", "n1", {ALLOCATED: "GPU-n1,NVIDIA,8000,0:;"})
    tick(world)
    assert (flow.used_mib(), found()) == (8000, [("drift-missing", "nlp/p", "counted")])


def test_a_status_that_nobody_heard_of_is_brought_in_line_and_shown(world: World) -> None:
    pod = world.pod("p", mem=4000, inits=[kube_objects.container("load", mem=9000)])
    assert flow.filter_(pod).node == "n1"
    plan = flow.bind(pod)
    world.bind("p", "n1", plan.annotations)  # type: ignore[union-attr]
    observe.pods_observe([_seen(world, "p")], config=CONFIG)
    assert flow.used_mib() == 9000
    world.status("p", initContainerStatuses=[{"name": "load", **kube_objects.terminated(0)}])
    tick(world)
    assert (flow.used_mib(), found()) == (4000, [("drift-changed", "nlp/p", "brought in line")])


def test_annotations_that_state_other_devices_stay_a_finding_for_people(world: World) -> None:
    running(world)
    forged = {"metadata": {"annotations": {ALLOCATED: "GPU-n1,NVIDIA,1,0:;"}}}
    world.people.call("PATCH", "/api/v1/namespaces/nlp/pods/p", forged, media=MERGE_PATCH)
    assert [one.kind for one in audit.audit_run(world.api, config=CONFIG)] == ["changed"]
    audit.audit_run(world.api, config=CONFIG)
    assert found() == [("drift-changed", "nlp/p", "")]
    assert flow.used_mib() == 8000
    world.delete("p")
    tick(world)
    audit.audit_run(world.api, config=CONFIG)
    assert found()[0] == ("drift-changed", "nlp/p", "the ledger and the cluster agree again")


def test_a_view_that_went_wrong_is_loaded_anew_and_shown(world: World) -> None:
    running(world)
    live = live_view.live()
    live._view = replace(live.refresh(), usage={})
    audit.audit_run(world.api, config=CONFIG)
    assert found() == [("drift-view", "view", "loaded anew")]
    flow.view_is_true()


def test_a_row_that_was_written_past_the_ledger_is_read_anew_by_every_process(world: World) -> None:
    running(world)
    other = live_view.LiveView(ledger.cluster_id())
    for one in (other, live_view.live()):
        one.refresh()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE accounting_share SET memory_mib = 9000")
    assert _used(other.refresh()) == 8000
    audit.audit_run(world.api, config=CONFIG)
    assert ("drift-view", "view", "loaded anew") in found()
    assert _used(other.refresh()) == 9000
    flow.view_is_true()


def _used(view: View) -> int:
    return sum(one.memory_mib for one in view.usage["nlp"].values())


def test_what_the_watcher_writes_a_moment_later_is_no_drift(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    running(world)
    world.delete("p")

    uid = next(iter(live_view.live().now.pods.values())).uid
    monkeypatch.setattr(drift._pause, "wait", lambda _: observe.pods_gone([uid]))
    tick(world)
    assert (flow.used_mib(), found()) == (0, [])


def test_without_a_watcher_ticks_do_its_work_and_nothing_is_odd(world: World) -> None:
    running(world)
    flights.lease_drop(name=ledger.WATCHER, holder="deaf")
    world.delete("p")
    tick(world)
    assert (flow.used_mib(), found()) == (0, [])


def test_findings_are_told_by_events_about_their_pod_or_node_once(world: World) -> None:
    running(world)
    world.delete("p")
    tick(world)
    with ledger.transaction(cause="test") as entry:
        findings.finding_raise(entry, kind="node-lock-stuck", subject="n1", message="locked", evidence={})
    assert finding_events.findings_tell(world.api) == 2
    assert finding_events.findings_tell(world.api) == 0
    told = {one["involvedObject"]["kind"]: one for one in events(world, "nlp") + events(world, "default")}
    assert told["Pod"]["message"].startswith("drift-leaked: ")
    assert (told["Pod"]["type"], told["Pod"]["reason"]) == ("Normal", "FindingRepaired")
    assert (told["Node"]["involvedObject"]["name"], told["Node"]["type"]) == ("n1", "Warning")


def events(world: World, namespace: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = world.people.get(f"/api/v1/namespaces/{namespace}/events")["items"]
    return items
