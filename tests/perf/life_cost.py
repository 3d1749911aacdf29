"""Takes pods through their whole life in a process of its own and says as JSON what the database wrote for each:
`python -m tests.perf.life_cost PODS`. Over an empty database of PostgreSQL's."""

from __future__ import annotations

import json
import sys

import django

COUNTS = (
    "SELECT sum(n_tup_ins), sum(n_tup_upd), sum(n_tup_del), pg_current_wal_lsn() - '0/0',"
    " pg_database_size(current_database()) FROM pg_stat_user_tables"
)
NAMES = ("inserted", "updated", "deleted", "log_bytes", "disk_bytes")
NODES = 50


def main(count: int) -> None:
    """Of each pod: rows inserted, updated and deleted, bytes of the write-ahead log and of the disk, ledger
    transactions. From admission to its end: claimed, seen, placed, bound, running, succeeded, gone."""
    django.setup()
    from accounting import live_view
    from tests.accounting import flow, kube_objects

    flow.cluster(*(kube_objects.node(f"n{number}") for number in range(NODES)))
    _life(kube_objects.pod("first", node=""), "n0")
    before, revision = _counts(), live_view.live().refresh().clock.revision
    for number in range(count):
        _life(kube_objects.pod(f"pod-{number}", mem=1000), f"n{number % NODES}")
    after = _counts()
    cost = {name: (after[name] - before[name]) / count for name in NAMES}
    cost["transactions"] = (live_view.live().refresh().clock.revision - revision) / count
    sys.stdout.write(json.dumps(cost))


def _life(pod: dict[str, object], node: str) -> None:
    from accounting.services import observe
    from tests.accounting import flow

    assert flow.admit(pod).granted
    flow.show(pod)  # the watcher sees it, unbound
    flow.run_placed(pod, node)
    flow.show(pod | {"status": {"phase": "Succeeded", "containerStatuses": []}})
    observe.pods_gone([pod["metadata"]["uid"]])  # type: ignore[index]


def _counts() -> dict[str, float]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(COUNTS)
        return {name: float(value) for name, value in zip(NAMES, cursor.fetchone(), strict=True)}


if __name__ == "__main__":
    main(int(sys.argv[1]))
