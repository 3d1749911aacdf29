"""Background loops, health, registration and heartbeat."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deviceplugin import VERSION, board, health, heartbeat, inventory, loops, register, registrar
from hami_platform.kube import calls, errors, leases
from tests.deviceplugin.builders import GPU_A, GPU_B, NODE, card, device_record, inventory_file, node, profile
from tests.deviceplugin.cluster import Cluster

REGISTER = "hami.io/node-nvidia-register"
LABEL = "platform.hami.io/agent"


def test_a_poked_loop_runs_at_once_and_ends_when_asked() -> None:
    stop, ran = loops.Stop(), threading.Semaphore(0)

    def step() -> float:
        ran.release()
        return 3600.0

    loop = loops.Loop("test", step, stop)
    loop.start()
    assert ran.acquire(timeout=10)
    loop.poke()
    assert ran.acquire(timeout=10)
    stop.ask()
    loop.end(10)
    assert not loop.is_alive()
    assert stop.faults == 0


def test_a_loop_that_fails_ends_the_agent() -> None:
    stop = loops.Stop()

    def step() -> float:
        raise RuntimeError("a fault of the program")

    with pytest.raises(RuntimeError):
        loops.Loop("test", step, stop).run()  # as its thread does
    assert stop.event.is_set()
    assert stop.faults == 1


# --- health ----------------------------------------------------------------------------------


def watch(folder: Path) -> tuple[health.HealthWatch, board.Board]:
    shown = board.Board()
    return health.HealthWatch(inventory.FileInventory(folder / "inventory.json"), shown, 5.0), shown


def test_a_change_of_health_is_a_new_picture_and_no_change_is_none(tmp_path: Path) -> None:
    inventory_file(tmp_path, device_record())
    looking, shown = watch(tmp_path)
    looking.step()
    looking.step()
    assert shown.picture.version == 1
    inventory_file(tmp_path, device_record(health="unhealthy"))
    looking.step()
    assert (shown.picture.version, shown.picture.cards[0].healthy) == (2, False)


def test_cards_that_cannot_be_seen_three_times_are_unhealthy_until_they_can(tmp_path: Path) -> None:
    path = inventory_file(tmp_path, device_record())
    looking, shown = watch(tmp_path)
    looking.step()
    path.write_text("{")
    seen = []
    for _ in range(3):
        looking.step()
        seen.append(shown.picture.cards[0].healthy)
    assert seen == [True, True, False]
    inventory_file(tmp_path, device_record())
    looking.step()
    assert shown.picture.cards[0].healthy


def test_a_waiter_gets_the_newer_picture_or_none_when_closed() -> None:
    shown = board.Board()
    shown.publish((card(),))
    assert shown.newer(0, 0.0) == shown.picture
    assert shown.newer(1, 0.0) is None
    shown.close()
    assert shown.newer(0, 0.0) is None


# --- register annotation ---------------------------------------------------------------------


def keeper(cluster: Cluster, *cards: inventory.Card, marked: bool = True) -> tuple[registrar.Registrar, board.Board]:
    shown = board.Board()
    shown.publish(cards or (card(GPU_B, index=0), card(GPU_A, index=1)))
    return registrar.Registrar(NODE, cluster, shown, register.Scaling(), marked=marked), shown


def test_the_node_is_patched_once_and_then_left_alone() -> None:
    cluster = Cluster(node())
    keeping, _ = keeper(cluster)
    assert [keeping.step() for _ in range(3)] == [registrar.CHECK_S] * 3
    assert len(cluster.writes) == 1
    assert cluster.node(NODE)["metadata"]["labels"] == {LABEL: VERSION}
    written = json.loads(cluster.node(NODE)["metadata"]["annotations"][REGISTER])
    assert [one["id"] for one in written] == [GPU_A, GPU_B]


def test_a_change_of_health_changes_the_annotation_alone() -> None:
    cluster = Cluster(node())
    keeping, shown = keeper(cluster, card())
    keeping.step()
    shown.publish((card(healthy=False),))
    keeping.step()
    assert "health" not in cluster.node(NODE)["metadata"]["annotations"][REGISTER]
    body = cluster.writes[-1].body
    assert body is not None
    assert set(body["metadata"]) == {"annotations"}  # type: ignore[call-overload]


def test_what_somebody_else_removes_comes_back() -> None:
    cluster = Cluster(node())
    keeping, _ = keeper(cluster)
    keeping.step()
    cluster.put(node())
    keeping.step()
    assert REGISTER in cluster.node(NODE)["metadata"]["annotations"]


def test_in_hami_mode_the_node_carries_no_mark_and_loses_an_old_one() -> None:
    cluster = Cluster(node(labels={LABEL: "0.0.1"}))
    keeper(cluster, marked=False)[0].step()
    assert cluster.node(NODE)["metadata"]["labels"] == {}
    assert REGISTER in cluster.node(NODE)["metadata"]["annotations"]


def test_a_failed_patch_is_tried_again_in_five_seconds() -> None:
    cluster = Cluster(node())
    cluster.fail = [None, errors.Ambiguous("reset")]
    keeping, _ = keeper(cluster)
    assert keeping.step() == registrar.RETRY_S
    assert keeping.step() == registrar.CHECK_S
    assert REGISTER in cluster.node(NODE)["metadata"]["annotations"]


def test_without_cards_the_annotation_goes() -> None:
    cluster = Cluster(node(annotations={REGISTER: "[]"}))
    shown = board.Board()
    shown.publish(())
    registrar.Registrar(NODE, cluster, shown, register.Scaling(), marked=True).step()
    assert REGISTER not in cluster.node(NODE)["metadata"]["annotations"]


def connected(*, symmetric: bool = True) -> tuple[inventory.Card, ...]:
    score = 240 if symmetric else 0
    return tuple(
        card(one, index=index, peers=(inventory.Peer(other, score, symmetric),))
        for index, (one, other) in enumerate(((GPU_A, GPU_B), (GPU_B, GPU_A)))
    )


@pytest.mark.parametrize("asked", [True, False])
def test_pair_scores_are_told_only_where_that_is_asked_for(asked: bool) -> None:
    cluster, shown = Cluster(node()), board.Board()
    shown.publish(connected())
    registrar.Registrar(NODE, cluster, shown, register.Scaling(), marked=True, scores=asked).step()
    text = cluster.node(NODE)["metadata"]["annotations"].get("hami.io/node-nvidia-score")
    wanted = [{"uuid": GPU_A, "score": {GPU_B: 240}}, {"uuid": GPU_B, "score": {GPU_A: 240}}]
    assert (text and json.loads(text)) == (wanted if asked else None)


def test_two_sides_that_count_other_links_are_told_of_once_an_hour() -> None:
    cluster, shown, now_s = Cluster(node()), board.Board(), [1_790_000_000.0]
    shown.publish(connected(symmetric=False))
    keeping = registrar.Registrar(
        NODE, cluster, shown, register.Scaling(), marked=True, scores=True, now_s=lambda: now_s[0]
    )
    for now_s[0] in (1_790_000_000.0, 1_790_003_599.0, 1_790_003_600.0):
        assert keeping.step() == registrar.CHECK_S
    events = [value for value in cluster.stored.values() if value.get("kind") == "Event"]
    assert [(one["reason"], one["involvedObject"]["name"]) for one in events] == [(registrar.ASYMMETRIC, NODE)] * 2


def test_an_event_that_cannot_be_written_disturbs_no_registration() -> None:
    cluster, shown = Cluster(node()), board.Board()
    shown.publish(connected(symmetric=False))
    cluster.fail = [None, None, errors.Unauthorized(403, "Forbidden", "events")]
    keeping = registrar.Registrar(NODE, cluster, shown, register.Scaling(), marked=True, scores=True)
    assert [keeping.step() for _ in range(2)] == [registrar.CHECK_S] * 2
    assert len(cluster.writes) == 1


def test_cards_whose_instances_the_kubelet_accounts_for_are_not_registered() -> None:
    cluster, shown = Cluster(node()), board.Board()
    shown.publish((card(), card(GPU_B, index=1, mode="mig", profiles=(profile(),))))
    registrar.Registrar(NODE, cluster, shown, register.Scaling(), marked=True, static=True).step()
    text = cluster.node(NODE)["metadata"]["annotations"][REGISTER]
    assert [one["id"] for one in json.loads(text)] == [GPU_A]


def test_mark_is_valid_as_a_label() -> None:
    assert VERSION.replace(".", "").replace("-", "").isalnum()
    assert len(VERSION) <= 63


# --- heartbeat -------------------------------------------------------------------------------

START = datetime(2026, 8, 21, 8, 0, tzinfo=UTC)


def test_the_lease_is_made_then_renewed_and_the_node_is_never_touched() -> None:
    cluster = Cluster(node())
    at = [START]
    beating = heartbeat.Heartbeat(NODE, cluster, lambda: at[0])
    for _ in range(3):
        assert beating.step() == heartbeat.PERIOD_S
        at[0] += timedelta(seconds=15)
    assert [call.method for call in cluster.writes] == ["POST", "PUT", "PUT"]
    (lease,) = [value for path, value in cluster.stored.items() if path.startswith(calls.COORDINATION)]
    assert lease["metadata"]["name"] == leases.agent_lease(NODE)
    assert lease["spec"]["acquireTime"] == "2026-08-21T08:00:00.000000Z"
    assert lease["spec"]["renewTime"] == "2026-08-21T08:00:30.000000Z"


def test_a_lease_of_an_earlier_agent_is_continued() -> None:
    cluster = Cluster(node())
    heartbeat.Heartbeat(NODE, cluster, lambda: START).step()
    assert heartbeat.Heartbeat(NODE, cluster, lambda: START).step() == heartbeat.PERIOD_S
    assert [call.method for call in cluster.writes] == ["POST", "PUT"]


def test_a_lease_that_moved_or_went_is_looked_up_again() -> None:
    cluster = Cluster(node())
    beating = heartbeat.Heartbeat(NODE, cluster, lambda: START)
    beating.step()
    (path,) = [path for path in cluster.stored if path.startswith(calls.COORDINATION)]
    cluster.stored[path]["metadata"]["resourceVersion"] = "1"
    assert (beating.step(), beating.step()) == (heartbeat.RETRY_S, heartbeat.PERIOD_S)
    del cluster.stored[path]
    assert (beating.step(), beating.step()) == (heartbeat.RETRY_S, heartbeat.PERIOD_S)
