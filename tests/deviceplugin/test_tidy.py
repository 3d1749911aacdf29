"""What is cleared up after pods that are gone, and what is not."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from deviceplugin import checkpoint, inventory, tidy
from hami_platform.domain import devices
from hami_platform.kube import errors
from tests.deviceplugin.builders import GPU_A, NODE, node, pod
from tests.deviceplugin.cluster import Cluster
from tests.deviceplugin.test_removal import deep

NOW_S = 1_800_000_000.0
QUIET_S = 300.0


class Cards:
    """Remembers which instances were destroyed; `busy` ones cannot be."""

    def __init__(self) -> None:
        self.gone: list[tuple[str, devices.MigUse]] = []
        self.busy = False

    def scan(self) -> tuple[inventory.Card, ...]:
        return ()

    def realise(self, card: str, use: devices.MigUse) -> inventory.MigInstance:
        raise NotImplementedError

    def dissolve(self, card: str, use: devices.MigUse) -> None:
        if self.busy:
            raise inventory.InventoryError("in use")
        self.gone.append((card, use))

    def cut(self, card: str) -> None:
        raise NotImplementedError


class Bench:
    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.cards = Cards()
        self.record = checkpoint.Checkpoint(folder / "agent.json")
        self.directories = folder / "containers"
        self.turn = threading.Lock()
        self.tidier = tidy.Tidier(
            NODE, cluster, self.record, self.cards, self.directories, self.turn, QUIET_S, now_s=lambda: NOW_S
        )

    def directory(self, name: str, age_s: float) -> Path:
        path = self.directories / name
        path.mkdir(parents=True)
        (path / "a.cache").touch()
        os.utime(path, (NOW_S - age_s, NOW_S - age_s))
        return path


def test_only_quiet_directories_of_gone_pods_are_removed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Cluster(pod()))
    kept = [
        bench.directory("uid-train_main", age_s=9000),  # its pod is here
        bench.directory("uid-gone_main", age_s=QUIET_S - 1),  # may still run
        bench.directory("shared", age_s=9000),  # not a container's
        bench.directory("_main", age_s=9000),
    ]
    removed = bench.directory("uid-gone_main_2", age_s=QUIET_S + 1)
    assert bench.tidier.step() == QUIET_S
    assert all(path.exists() for path in kept)
    assert not removed.exists()


def test_a_pod_served_meanwhile_is_never_forgotten(tmp_path: Path) -> None:
    """The list is taken with the turn, so nobody can be served between it and the forgetting."""
    taken: list[bool] = []

    class Watched(Cluster):
        def send(self, call: Any, *, timeout_s: float | None = None) -> Any:
            taken.append(bench.turn.locked())
            return super().send(call, timeout_s=timeout_s)

    bench = Bench(tmp_path, Watched())
    bench.tidier.step()
    assert (taken, bench.turn.locked()) == ([True], False)


def test_without_an_answer_nothing_is_removed(tmp_path: Path) -> None:
    cluster = Cluster()
    bench = Bench(tmp_path, cluster)
    path = bench.directory("uid-gone_main", age_s=9000)
    cluster.fail = [errors.Unreachable("refused")]
    bench.tidier.step()
    assert path.exists()


@pytest.mark.parametrize("busy", [False, True])
def test_a_mig_instance_in_use_keeps_its_record_until_it_is_destroyed(tmp_path: Path, busy: bool) -> None:
    bench = Bench(tmp_path, Cluster())
    given = checkpoint.Given("main", (GPU_A,), ((GPU_A, "1g.5gb", 6, 1),))
    bench.record.add("uid-gone", "nlp", "gone", [given])
    bench.cards.busy = busy
    bench.tidier.step()
    assert set(bench.record.pods) == ({"uid-gone"} if busy else set())
    bench.cards.busy = False
    bench.tidier.step()
    assert bench.cards.gone == [(GPU_A, devices.MigUse("1g.5gb", devices.MigPlacement(6, 1)))]
    assert bench.record.pods == {}


def test_under_a_wrong_name_nothing_is_removed(tmp_path: Path) -> None:
    """The API server answers with no pods at all; the containers that run here would look left behind."""
    bench = Bench(tmp_path, Cluster())
    path = bench.directory("uid-gone_main", age_s=9000)
    bench.tidier.step()
    assert path.exists()


def test_on_a_node_without_any_pod_what_is_left_behind_is_removed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Cluster(node()))
    path = bench.directory("uid-gone_main", age_s=9000)
    bench.tidier.step()
    assert not path.exists()


def test_a_link_in_place_of_a_directory_is_no_containers(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Cluster(pod()))
    target = bench.directory("precious", age_s=9000)
    (bench.directories / "uid-gone_main").symlink_to(target)
    bench.tidier.step()
    assert (target / "a.cache").exists()


def test_what_a_container_buried_deep_does_not_end_the_agent(light: Path) -> None:
    bench = Bench(light, Cluster(pod()))
    bench.directories.mkdir()
    path = bench.directories / "uid-gone_main"
    deep(path, 1100)
    os.utime(path, (0, 0))
    bench.tidier.step()
    assert not path.exists()


def test_an_interval_of_nothing_is_still_a_pause(tmp_path: Path) -> None:
    record = checkpoint.Checkpoint(tmp_path / "agent.json")
    tidier = tidy.Tidier(NODE, Cluster(pod()), record, Cards(), tmp_path, threading.Lock(), 0.0)
    assert tidier.step() == tidy.LEAST_S
