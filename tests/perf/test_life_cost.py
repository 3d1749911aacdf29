"""What the database writes for a pod from its admission to its end. It says how large the ledger becomes, so it has a
bound: rows and bytes are the same on every machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import servers
from tests.perf import serving

pytestmark = [pytest.mark.perf, pytest.mark.timeout(600)]

PODS = 200
TRANSACTIONS, ROWS, LOG_KIB = 8, 32, 24
"""Ledger transactions, rows inserted, updated and deleted, and KiB of the write-ahead log, at most."""


def test_a_pods_whole_life_writes_little(postgres_url: str, kubeconfig: Path, tmp_path: Path) -> None:
    with servers.fresh_database(postgres_url) as url:
        over = serving.empty_ground(serving.Size(50, 1, 0), "PostgreSQL", tmp_path, url, kubeconfig)
        command = [sys.executable, "-m", "tests.perf.life_cost", str(PODS)]
        done = subprocess.run(command, cwd=serving.ROOT, env=over.environment, check=True, capture_output=True)
    cost = json.loads(done.stdout.decode().splitlines()[-1])
    rows = cost["inserted"] + cost["updated"] + cost["deleted"]
    serving.report(
        f"a pod's whole life: {cost['transactions']:.1f} ledger transactions, {rows:.1f} rows ({cost['inserted']:.1f}"
        f" inserted, {cost['updated']:.1f} updated, {cost['deleted']:.1f} deleted), {cost['log_bytes'] / 1024:.1f} KiB"
        f" of log, {cost['disk_bytes'] / 1024:.1f} KiB that stay until retention takes them"
    )
    assert cost["transactions"] <= TRANSACTIONS
    assert rows <= ROWS
    assert cost["log_bytes"] <= LOG_KIB * 1024
