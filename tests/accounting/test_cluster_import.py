"""A cluster that HAMi ran, taken over from its annotations: the same twice, and the cluster stays as it is."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from accounting import live_view
from accounting.models import Finding, Journal, NodeLock, Pod
from accounting.services import audit, cluster_import, reconcile
from hami_platform.domain.reasons import Reason
from hami_platform.domain.wire import node_register
from hami_platform.simulator.client import MERGE_PATCH
from tests import builders
from tests.accounting import flow, kube_objects, simulated
from tests.accounting.simulated import World

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]
CONFIG = kube_objects.CONFIG
ALLOCATED = "hami.io/vgpu-devices-allocated"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """One node with one card of 24 GiB that nobody has looked at."""
    with simulated.world(tmp_path) as one:
        one.node(agent="")
        yield one


def hami(world: World, name: str, text: str, *containers: dict[str, Any], node: str = "n1", **kwargs: Any) -> None:
    """A pod that HAMi placed and bound."""
    made = kube_objects.pod(name, *containers, **kwargs)
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        del made["metadata"][field]
    del made["status"]
    world.people.create("/api/v1/namespaces/nlp/pods", made)
    notes = {ALLOCATED: text, "hami.io/vgpu-devices-to-allocate": text, "hami.io/vgpu-node": node}
    world.bind(name, node, notes)


def lock(world: World, value: str, node: str = "n1") -> None:
    note = {"metadata": {"annotations": {"hami.io/mutex.lock": value}}}
    world.people.call("PATCH", f"/api/v1/nodes/{node}", note, media=MERGE_PATCH)


def imported(world: World, *, dry_run: bool = False) -> cluster_import.ImportReport:
    return cluster_import.cluster_import(world.api, config=CONFIG, dry_run=dry_run)


def verdicts(report: cluster_import.ImportReport) -> dict[str, str]:
    return {one.name.partition("/")[2]: one.verdict for one in report.pods}


def run(*flags: str) -> tuple[int, str]:
    """(exit code, what it printed)."""
    out = io.StringIO()
    try:
        call_command("import_cluster", *flags, stdout=out)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue()
    return 0, out.getvalue()


def versions(world: World) -> dict[str, str]:
    found = {}
    for path in ("/api/v1/nodes", "/api/v1/pods"):
        for item in world.people.get(path)["items"]:
            found[item["metadata"]["name"]] = item["metadata"]["resourceVersion"]
    return found


def mixed(world: World) -> None:
    """Something of everything."""
    hami(world, "plain", "GPU-n1,NVIDIA,8000,30:;", mem=8000)
    inits = [kube_objects.container("prepare", gpu=None)]
    hami(world, "k1", "GPU-n1,NVIDIA,4000,10:;", kube_objects.container(mem=4000), inits=inits)
    hami(world, "broken", "GPU-n1,NVIDIA,100:;", mem=100)
    world.pod("bypass", mem=1000)
    world.bind("bypass", "n1")
    lock(world, "2026-01-01T00:00:00Z,nlp,plain")


def test_pods_of_every_kind_are_taken_over_and_named(world: World) -> None:
    mixed(world)
    report = imported(world)
    assert verdicts(report) == {
        "plain": "taken over", "k1": "unaligned", "broken": "undecodable", "bypass": "unmanaged",
    }  # fmt: skip
    assert report.needs_a_person
    assert [(one.node, one.owner) for one in report.locks] == [("n1", "nlp/plain")]
    assert flow.used_mib() == 12000
    assert live_view.live().refresh().nodes["n1"].accounting_unknown.startswith("pod nlp/broken")
    assert NodeLock.objects.get().pod_uid == Pod.objects.get(name="plain").uid
    flow.view_is_true()


def test_importing_twice_reports_nothing_new_and_writes_nothing(world: World) -> None:
    mixed(world)
    first = run()
    revisions = Journal.objects.count()
    second = run()
    assert Journal.objects.count() == revisions
    assert first[0] == second[0] == 1
    assert "now in the ledger" in first[1]
    assert "nothing new" in second[1]


def test_the_cluster_stays_as_it_is(world: World) -> None:
    mixed(world)
    before = versions(world)
    imported(world)
    assert versions(world) == before


def test_a_dry_run_says_the_same_and_writes_nothing(world: World) -> None:
    mixed(world)
    live_view.live().refresh()
    revisions = Journal.objects.count()
    dry = imported(world, dry_run=True)
    assert Journal.objects.count() == revisions
    assert not Pod.objects.exists()
    real = imported(world)
    assert (dry.nodes, dry.pods, dry.excesses) == (real.nodes, real.pods, real.excesses)


def test_a_clean_cluster_needs_nobody(world: World) -> None:
    hami(world, "plain", "GPU-n1,NVIDIA,8000,30:;", mem=8000)
    code, printed = run()
    assert code == 0
    assert "1 nodes with 1 devices; pods: 1 taken over; 0 locks" in printed
    reconcile.everything_reconcile(world.api, config=CONFIG)
    assert audit.differences(world.api, config=CONFIG) == []


def test_k1_rows_that_cannot_be_attributed_count_as_apps_and_never_shrink(world: World) -> None:
    inits = [kube_objects.container("prepare", gpu=None)]
    hami(world, "p", "GPU-n1,NVIDIA,10000,30:;", kube_objects.container(mem=10000), inits=inits)
    imported(world)
    done = {"name": "prepare", "state": {"terminated": {"exitCode": 0}}}
    world.status("p", phase="Running", initContainerStatuses=[done])
    reconcile.pods_reconcile(world.api, config=CONFIG)
    assert flow.used_mib() == 10000


def test_rows_of_every_container_shrink_as_their_inits_end(world: World) -> None:
    inits = [kube_objects.container("load", mem=20000)]
    hami(world, "p", "GPU-n1,NVIDIA,20000,0:;GPU-n1,NVIDIA,10000,0:;", kube_objects.container(mem=10000), inits=inits)
    assert verdicts(imported(world)) == {"p": "taken over"}
    assert flow.used_mib() == 20000
    done = {"name": "load", "state": {"terminated": {"exitCode": 0}}}
    world.status("p", phase="Running", initContainerStatuses=[done])
    reconcile.pods_reconcile(world.api, config=CONFIG)
    assert flow.used_mib() == 10000


def test_an_older_plugin_that_registers_as_text_is_read(world: World) -> None:
    text = node_register.encode_text([builders.device("GPU-old")])
    nine = {"hami.io/node-nvidia-register": text}
    seven = {"hami.io/node-nvidia-register": "GPU-older,10,24576,100,NVIDIA-Tesla T4,0,true:"}
    world.node("n2", agent="", annotations=nine)
    world.node("n3", agent="", annotations=seven)
    hami(world, "p", "GPU-older,NVIDIA,3000,0:;", node="n3", mem=3000)
    report = imported(world)
    assert {one.name: one.devices for one in report.nodes} == {"n1": 1, "n2": 1, "n3": 1}
    assert flow.used_mib("GPU-older") == 3000


def test_a_mig_pod_of_hami_before_v2_10_holds_its_card_and_keeps_it_closed(world: World) -> None:
    profile = builders.profile("1g.5gb", 4864, 14, 1, range(7), 1)
    card = builders.device("GPU-m", memory_mib=40960, slots=7, mode="mig", mig_profiles=(profile,))
    world.node("n2", card, agent="")
    hami(world, "p", "GPU-m[0-2],NVIDIA,4864,14:;", node="n2", mem=4864)
    assert verdicts(imported(world)) == {"p": "taken over"}
    (state,) = live_view.live().refresh().states["n2"].devices
    assert (state.held.memory_mib, state.unusable) == (4864, Reason.CARD_NOT_HEALTH)


def test_v2_9_and_v2_8_rows_are_read_as_those_of_v2_10(world: World) -> None:
    """Rows and locks kept their form since v2.8; the decoded text is what counts, not who wrote it."""
    world.node("n2", agent="", annotations={"hami.io/node-nvidia-register": node_register.encode_text(
        [builders.device("GPU-old", memory_mib=16384)])})  # fmt: skip
    inits = [kube_objects.container("load", mem=2000)]
    hami(world, "p", "GPU-old,NVIDIA,2000,0:;GPU-old,NVIDIA,1000,0", kube_objects.container(mem=1000), inits=inits,
         node="n2")  # fmt: skip
    lock(world, "2026-01-01T00:00:00Z", node="n2")
    first = imported(world)
    assert verdicts(first) == {"p": "taken over"}
    assert flow.used_mib("GPU-old") == 2000
    revision = live_view.live().refresh().clock.revision
    assert verdicts(imported(world)) == {"p": "taken over"}
    assert live_view.live().refresh().clock.revision == revision


def test_an_over_committed_device_is_told_with_by_how_much(world: World) -> None:
    for name in ("a", "b"):
        hami(world, name, "GPU-n1,NVIDIA,20000,60:;", mem=20000)
    report = imported(world)
    assert [(one.uuid, one.resource, one.over) for one in report.excesses] == [
        ("GPU-n1", "memory MiB", 40000 - builders.device("GPU-n1").memory_mib), ("GPU-n1", "core %", 20),
    ]  # fmt: skip
    assert report.needs_a_person
    assert flow.used_mib() == 40000, "the truth is recorded"


@pytest.mark.parametrize(
    "value, owner, aged",
    [("2026-01-01T00:00:00Z", "nobody", True), ("garbage", "unreadable", False)],
    ids=["h50", "h51"],
)
def test_h50_h51_locks_without_a_readable_owner_are_listed_and_left_alone(
    world: World, value: str, owner: str, aged: bool
) -> None:
    lock(world, value)
    (found,) = imported(world).locks
    assert found.owner.startswith(owner)
    assert (found.age_s is not None) == aged
    assert NodeLock.objects.get().value == value
    assert world.people.get("/api/v1/nodes/n1")["metadata"]["annotations"]["hami.io/mutex.lock"] == value


def test_pods_that_finished_hold_nothing(world: World) -> None:
    hami(world, "p", "GPU-n1,NVIDIA,8000,30:;", mem=8000)
    world.status("p", phase="Succeeded")
    assert imported(world).pods == ()
    assert flow.used_mib() == 0


def test_a_node_whose_registration_cannot_be_read_needs_a_person(world: World) -> None:
    world.node("n2", agent="", annotations={"hami.io/node-nvidia-register": json.dumps([{"id": ""}])})
    report = imported(world)
    assert next(one for one in report.nodes if one.name == "n2").problem
    assert report.needs_a_person


# -- beside HAMi: seen unbound first, bound by somebody else -----------------------------------------------------------


def test_a_pod_that_hami_binds_after_we_saw_it_holds_what_its_annotations_state(world: World) -> None:
    reconcile.everything_reconcile(world.api, config=CONFIG)
    world.pod("p", mem=8000)
    reconcile.pods_reconcile(world.api, config=CONFIG)
    assert flow.used_mib() == 0
    world.bind("p", "n1", {ALLOCATED: "GPU-n1,NVIDIA,8000,30:;"})
    reconcile.pods_reconcile(world.api, config=CONFIG)
    assert flow.used_mib() == 8000
    assert not Finding.objects.exists()
    assert audit.differences(world.api, config=CONFIG) == []


def test_a_reservation_that_hami_overrides_becomes_what_hami_wrote(world: World) -> None:
    world.node("n2", builders.device("GPU-a"), builders.device("GPU-b", index=1), agent="")
    reconcile.everything_reconcile(world.api, config=CONFIG)
    pod = world.pod("p", mem=8000)
    flow.filter_(pod, "n2")
    ours = next(uuid for uuid in ("GPU-a", "GPU-b") if flow.used_mib(uuid))
    other = "GPU-b" if ours == "GPU-a" else "GPU-a"
    world.bind("p", "n2", {ALLOCATED: f"{other},NVIDIA,8000,30:;"})
    reconcile.pods_reconcile(world.api, config=CONFIG)
    assert (flow.used_mib(ours), flow.used_mib(other)) == (0, 8000)


@pytest.mark.parametrize("seen_first", [False, True], ids=["seen bound", "seen unbound first"])
def test_h10a_a_pod_of_another_scheduler_is_listed_as_unmanaged(world: World, seen_first: bool) -> None:
    reconcile.everything_reconcile(world.api, config=CONFIG)
    world.pod("p", mem=8000)
    if seen_first:
        reconcile.pods_reconcile(world.api, config=CONFIG)
    world.bind("p", "n1")
    reconcile.pods_reconcile(world.api, config=CONFIG)
    assert Pod.objects.get().unmanaged
    assert Finding.objects.get().kind == "unmanaged-pod"
    assert flow.used_mib() == 0
    assert flow.charged_mib() == 0
