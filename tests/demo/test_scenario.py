"""What the demonstration shows: its hardware, people and pods agree with each other."""

from __future__ import annotations

import itertools
import json
import pathlib
import socket
from collections import Counter

import pytest

from deviceplugin import inventory
from hami_platform.demo import fleet, installation, people, ports, workloads


def test_six_nodes_have_forty_cards() -> None:
    assert (len(fleet.NODES), len(fleet.uuids())) == (6, 40)


def test_agents_can_read_every_inventory(tmp_path: pathlib.Path) -> None:
    cards: list[inventory.Card] = []
    for node in fleet.NODES:
        file = tmp_path / f"{node.name}.json"
        file.write_text(json.dumps(node.inventory()))
        cards += inventory.FileInventory(file).scan()
    assert {card.uuid for card in cards} == fleet.uuids()
    assert sum(not card.healthy for card in cards) == 1
    assert {card.mode for card in cards if card.profiles} == {"mig"}


def test_five_tenants_have_eight_namespaces_in_every_mode() -> None:
    assert len(people.TENANTS) == 5
    assert len(people.NAMESPACES) == 8
    assert {one["mode"] for one in people.NAMESPACES} == {"enforce", "wait", "warn", "observe"}


def test_the_scenario_survives_json() -> None:
    assert json.loads(json.dumps(people.scenario(1)))["seed"] == 1


def test_pods_have_names_of_their_own_in_known_namespaces() -> None:
    asks = (*workloads.FOUNDATION, *workloads.RESIDENTS, *workloads.WAITING, workloads.DENIED)
    assert max(Counter((ask.namespace, ask.name) for ask in asks).values()) == 1
    assert {ask.namespace for ask in asks} <= {one["name"] for one in people.NAMESPACES}


def test_the_foundation_puts_a_share_on_every_usable_card() -> None:
    alone = sum(ask.devices for ask in workloads.FOUNDATION if ask.notes.get(workloads.MODE) != "mig")
    usable = sum(node.cards for node in fleet.NODES if not node.mig) - len([fleet.UNHEALTHY, fleet.CORDONED])
    assert alone == usable


def test_seven_pods_wait() -> None:
    assert len(workloads.WAITING) == 7


def test_the_same_seed_gives_the_same_stream() -> None:
    first, again, other = (list(itertools.islice(workloads.stream(seed), 50)) for seed in (1, 1, 2))
    assert first == again != other


def test_a_pod_of_the_stream_ends_and_is_not_restarted() -> None:
    pod = next(workloads.stream(1)).pod()
    assert pod["spec"]["restartPolicy"] == "Never"
    assert float(pod["metadata"]["annotations"]["simulator/run-for"]) > 0


def test_taken_ports_are_passed_over() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        found = ports.choose(taken)
    assert taken not in {found.web, found.api, found.webhook, found.extender}


def test_a_folder_too_deep_for_sockets_is_refused(tmp_path: pathlib.Path) -> None:
    deep = tmp_path / ("d" * 100)
    with pytest.raises(installation.Unusable, match="too long for sockets; set TMPDIR"):
        installation.prepare(tmp_path / "run", deep, ports.Ports(1, 2, 3, 4), seed=1)


def test_settings_of_a_real_installation_do_not_reach_the_demonstration(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAMI_DATABASE_URL", "postgresql://real@db/real")
    monkeypatch.setenv("KUBECONFIG", "/real/kubeconfig")
    made = installation.prepare(tmp_path / "run", pathlib.Path("/tmp/s"), ports.Ports(1, 2, 3, 4), seed=1)
    environment = made.watcher().environment
    assert "HAMI_DATABASE_URL" not in environment
    assert "KUBECONFIG" not in environment
    assert environment["HAMI_STATE_DIR"].startswith(str(tmp_path))


def test_secrets_are_new_in_every_run_and_for_their_owner_only(tmp_path: pathlib.Path) -> None:
    sockets = pathlib.Path("/tmp/s")
    first = installation.prepare(tmp_path / "a", sockets, ports.Ports(1, 2, 3, 4), seed=1)
    second = installation.prepare(tmp_path / "b", sockets, ports.Ports(1, 2, 3, 4), seed=1)
    assert first.settings["HAMI_SECRET_KEY"] != second.settings["HAMI_SECRET_KEY"]
    assert first.env_file.stat().st_mode & 0o077 == 0
    assert first.settings["HAMI_SECRET_KEY"] not in repr(first.watcher())
