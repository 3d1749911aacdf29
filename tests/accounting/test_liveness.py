"""Signs of life through the nodes tick, and what the tick writes on nodes.

| plugin | allocatable | sign of life | its devices |
|---|---|---|---|
| HAMi's | > 0 | none needed | stay (H55a) |
| HAMi's | 0 | none for 60 s | out (H55b), and stay out: our own request is no sign (K16) |
| HAMi's | 0 | a new registration | back within one tick (H54) |
| ours | 0 | Lease renewed | stay |
| ours | 0 | Lease there, not renewed | out |
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from accounting import ledger, live_view
from accounting.models import NodeLiveness
from accounting.services import liveness, reconcile
from hami_platform import env
from hami_platform.domain.wire import node_register
from hami_platform.kube import leases
from hami_platform.simulator.client import MERGE_PATCH
from tests import builders
from tests.accounting import kube_objects, simulated
from tests.accounting.simulated import World

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]
CONFIG = kube_objects.CONFIG
SHAKE, REGISTER = "hami.io/node-handshake", "hami.io/node-nvidia-register"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with simulated.world(tmp_path) as one:
        yield one


def tick(world: World) -> int:
    return reconcile.nodes_reconcile(world.api, config=CONFIG)


def offered() -> list[str]:
    """uuids of the devices that are offered to new pods."""
    states = live_view.live().refresh().states
    return [one.device.uuid for node in states.values() for one in node.devices]


def silence(seconds: float = 90) -> None:
    """Every sign of life so far lies that far back."""
    back = ledger.database_time() - timedelta(seconds=seconds)
    for column in ("first_seen_at", "handshake_at", "lease_at", "report_at"):
        NodeLiveness.objects.exclude(**{column: None}).update(**{column: back})


def annotate(world: World, **notes: str | None) -> None:
    """The plugin writes on n1: shake, register."""
    keys = {"shake": SHAKE, "register": REGISTER}
    body = {"metadata": {"annotations": {keys[word]: text for word, text in notes.items()}}}
    world.people.call("PATCH", "/api/v1/nodes/n1", body, media=MERGE_PATCH)


def allocatable(world: World, count: int) -> None:
    body = {"status": {"allocatable": {"nvidia.com/gpu": str(count)}}}
    world.people.call("PATCH", "/api/v1/nodes/n1/status", body, media=MERGE_PATCH)


def look(world: World) -> dict[str, Any]:
    return dict(world.people.get("/api/v1/nodes/n1")["metadata"])


def shake(world: World) -> str:
    return str(look(world)["annotations"].get(SHAKE, ""))


def beat(world: World) -> None:
    """Our agent renews its Lease; its clock is wrong by a year."""
    now = datetime.now(UTC) - timedelta(days=365)
    leases.renew(
        world.api,
        namespace=leases.AGENTS_NAMESPACE,
        name=leases.agent_lease("n1"),
        holder="n1",
        duration_s=40,
        now=now,
    )


# -- what is written ---------------------------------------------------------------------------------------------------


def test_hamis_plugin_is_asked_once(world: World) -> None:
    world.node(agent="")
    tick(world)
    asked = shake(world)
    assert asked.startswith("Requesting_")
    version = look(world)["resourceVersion"]
    tick(world)
    assert (shake(world), look(world)["resourceVersion"]) == (asked, version)


def test_a_plugin_that_answered_is_asked_again(world: World) -> None:
    world.node(agent="")
    annotate(world, shake="Reported_2026-01-01 00:00:00")
    tick(world)
    assert shake(world).startswith("Requesting_")


def test_our_agents_node_and_a_node_without_devices_are_never_stamped(world: World) -> None:
    world.node()
    world.people.create("/api/v1/nodes", {"metadata": {"name": "cpu"}})
    tick(world)
    assert shake(world) == ""
    assert "annotations" not in world.people.get("/api/v1/nodes/cpu")["metadata"]


@pytest.mark.parametrize("narrowing,strict,labelled", [(True, False, True), (False, False, False), (True, True, False)])
def test_a_node_that_registered_gets_the_label_that_narrowing_goes_by(
    world: World, narrowing: bool, strict: bool, labelled: bool
) -> None:
    world.node()
    world.people.create("/api/v1/nodes", {"metadata": {"name": "cpu"}})
    with env.override(narrowing=narrowing, strict_hami=strict):
        tick(world)
        version = look(world)["resourceVersion"]
        tick(world)
    assert (look(world)["labels"].get("platform.hami.io/nvidia") == "true") is labelled
    assert look(world)["resourceVersion"] == version, "once"
    assert "platform.hami.io/nvidia" not in world.people.get("/api/v1/nodes/cpu")["metadata"].get("labels", {})


def test_the_label_stays_when_the_plugin_goes(world: World) -> None:
    world.node()
    with env.override(narrowing=True):
        tick(world)
        annotate(world, register=None)
        tick(world)
    assert look(world)["labels"]["platform.hami.io/nvidia"] == "true"


# -- what keeps devices in ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count,there", [(10, True), (0, False)], ids=["h55a", "h55b"])
def test_h55_a_request_90_s_old_takes_out_only_what_is_not_allocatable(world: World, count: int, there: bool) -> None:
    world.node(agent="")
    tick(world)
    silence(90)
    allocatable(world, count)
    tick(world)
    assert (offered() == ["GPU-n1"]) is there


def test_k16_a_dead_plugin_stays_out_until_it_is_back(world: World) -> None:
    world.node(agent="")
    tick(world)
    silence()
    allocatable(world, 0)
    history = []
    for _ in range(3):
        tick(world)
        history.append(offered())
        annotate(world, shake=None)  # HAMi's scheduler, side by side, deletes it; we stamp again
        tick(world)
        history.append(offered())
    assert history == [[]] * 6
    allocatable(world, 10)
    tick(world)
    assert offered() == ["GPU-n1"]


def test_h54_a_fresh_registration_after_deleted_is_usable_within_one_tick(world: World) -> None:
    world.node(agent="", allocatable=0)
    annotate(world, shake="Deleted_2026-01-01 00:00:00")
    tick(world)
    silence()
    tick(world)
    assert offered() == [], "Deleted is no sign of life"
    annotate(world, register=node_register.encode([builders.device("GPU-new")]))
    tick(world)
    assert offered() == ["GPU-new"]


def test_a_renewed_lease_keeps_the_devices_of_our_agent(world: World) -> None:
    world.node(allocatable=0)
    tick(world)
    for _ in range(2):
        silence()
        beat(world)
        tick(world)
        assert offered() == ["GPU-n1"]
    silence()
    tick(world)
    assert offered() == [], "the Lease is there, but nobody renews it"


def test_leases_are_stamped_with_the_database_s_time(world: World) -> None:
    world.node()
    tick(world)
    beat(world)
    assert liveness.leases_heard(reconcile.agents_renewed(world.api)) == 1
    assert liveness.leases_heard(reconcile.agents_renewed(world.api)) == 0, "not renewed since"
    heard = NodeLiveness.objects.get().lease_at
    assert heard is not None
    assert ledger.database_time() - heard < timedelta(minutes=5)


def test_a_report_over_rest_is_a_sign_of_life(world: World) -> None:
    world.node(allocatable=0)
    tick(world)
    silence()
    liveness.report_heard(node="n1")
    tick(world)
    assert offered() == ["GPU-n1"]
