"""What a pod is charged while its init containers run, end, and run again.

| statuses written | charged |
|---|---|
| bound, none yet | 20480 (init before app 10240) |
| init ended with 0 | 10240 |
| sandbox rebuilt: init runs again | 20480 |
| init ended with 1 | 20480 |
| pod succeeded | 0 |
"""

from __future__ import annotations

from typing import Any

from tests.cluster import nodes, statuses
from tests.cluster.kube import eventually
from tests.cluster.space import Space

PEAK_MIB, STEADY_MIB = 20480, 10240


def _write(team: Space, init: dict[str, Any], app: dict[str, Any], phase: str = "Running") -> None:
    statuses.report(team.api, team.name, "staged", init={"load": init}, apps={"train": app}, phase=phase)


def _await_charge(team: Space, wanted_mib: int) -> None:
    eventually(f"charged {wanted_mib} MiB", lambda: team.ledger.used_mib(team.name) == wanted_mib, within_s=10)
    held = {use["memory_mib"] for use in team.row("staged").get("held", {}).values()}
    assert held == ({wanted_mib} if wanted_mib else set())


def test_charge_follows_the_init_containers(team: Space) -> None:
    init = nodes.container("load", gpu=1, gpumem=PEAK_MIB)
    app = nodes.container("train", gpu=1, gpumem=STEADY_MIB)
    team.create(nodes.pod("staged", app, init=[init], labels=nodes.MANUAL))
    team.await_bound("staged")
    _await_charge(team, PEAK_MIB)

    _write(team, statuses.running(), statuses.waiting(), phase="Pending")
    _await_charge(team, PEAK_MIB)
    _write(team, statuses.ended(0), statuses.running())
    _await_charge(team, STEADY_MIB)
    _write(team, statuses.running(), statuses.waiting())
    _await_charge(team, PEAK_MIB)
    _write(team, statuses.ended(1), statuses.waiting())
    _await_charge(team, PEAK_MIB)
    _write(team, statuses.ended(0), statuses.ended(0), phase="Succeeded")
    eventually("charged nothing", lambda: team.ledger.used_mib(team.name) == 0, within_s=10)


def test_walked_init_containers_end_at_the_steady_charge(team: Space) -> None:
    init = nodes.container("load", gpu=1, gpumem=PEAK_MIB)
    app = nodes.container("train", gpu=1, gpumem=STEADY_MIB)
    team.create(nodes.pod("walked", app, init=[init], annotations={"e2e/init-for": "500ms"}))
    team.await_phase("walked", "Running")
    eventually("charged the app alone", lambda: team.ledger.used_mib(team.name) == STEADY_MIB, within_s=10)
