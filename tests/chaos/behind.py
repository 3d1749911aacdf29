"""Puts the ledger behind the cluster, as if its watcher had missed something: `python -m tests.chaos.behind HOW UID`.

| how | the row of the pod afterwards |
|---|---|
| leaked | runs again, though the pod is gone |
| missing | gone, though the pod runs |
| changed | on a node on which the pod is not |
| elsewhere | being bound to a node on which the pod is not |
| unjournaled | its shares hold 1 MiB less, and no process was told |

Prints the database's time. Everything but the last goes the ledger's way, so that every process believes it.
"""

from __future__ import annotations

import sys

import django


def main(how: str, uid: str) -> None:
    """Do it."""
    from django.db import connection

    from accounting import ledger
    from accounting.models import Node, Pod, PodState
    from accounting.services import pod_rows

    pod = Pod.objects.get(uid=uid)
    if how == "unjournaled":
        with connection.cursor() as cursor:
            cursor.execute("UPDATE accounting_share SET memory_mib = memory_mib - 1 WHERE pod_id = %s", [pod.pk])
        sys.stdout.write(ledger.database_time().isoformat())
        return
    with ledger.transaction(cause="test") as entry:
        other = Node.objects.exclude(name=pod.node).order_by("name").first()
        assert other is not None
        if how == "leaked":
            pod_rows.pod_move(entry, pod, PodState.RUNNING, ended_at=None)
        elif how == "missing":
            pod_rows.pod_move(entry, pod, PodState.ENDED, ended_at=entry.at)
            pod.delete()
        elif how == "changed":
            pod_rows.pod_move(entry, pod, PodState.RUNNING, node=other.name)
        else:
            assert how == "elsewhere", how
            pod_rows.pod_move(entry, pod, PodState.BINDING, node=other.name, bind_attempt=pod.bind_attempt + 1)
        at = entry.at
    sys.stdout.write(at.isoformat())


if __name__ == "__main__":
    django.setup()
    main(*sys.argv[1:])
