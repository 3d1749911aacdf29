"""Storms of requests on listeners that run as processes, and what the database says afterwards.

Must not know: what tests assert.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Sequence
from concurrent import futures
from typing import Any

import psycopg

from tests.chaos.stand import Member

PATIENCE_S = 120


def pod(name: str, mem: int, namespace: str = "nlp") -> dict[str, Any]:
    """An unbound pod that asks for so many MiB of one device."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mem)}
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {"phase": "Pending"},
    }


def review(name: str, mem: int, namespace: str = "nlp") -> dict[str, Any]:
    """kube-apiserver's question about the creation of such a pod."""
    asked = {
        "uid": f"review-{name}", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "namespace": namespace,
        "name": name, "operation": "CREATE", "userInfo": {"username": "ann"}, "object": pod(name, mem, namespace),
    }  # fmt: skip
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


def filtered(targets: Sequence[Member], pods: Sequence[dict[str, Any]], nodes: Sequence[str]) -> list[str]:
    """The node that each pod got ("" = refused), all asking at once, in turn over the extenders. An `Error` is asked
    again at the next extender, as kube-scheduler would later."""
    gate = threading.Barrier(len(pods))

    def one(number: int) -> str:
        gate.wait(30)
        body = {"Pod": pods[number], "Nodes": None, "NodeNames": list(nodes)}
        until = time.monotonic() + PATIENCE_S
        turn = number
        while time.monotonic() < until:
            try:
                answer = targets[turn % len(targets)].ask("/filter", body, timeout_s=10)
            except (OSError, http.client.HTTPException):
                answer = {"Error": "gone"}
            if not answer["Error"]:
                return "".join(answer["NodeNames"] or [])
            turn += 1
            time.sleep(0.05)
        raise AssertionError(f"no answer for {PATIENCE_S} s")

    with futures.ThreadPoolExecutor(len(pods)) as pool:
        return list(pool.map(one, range(len(pods))))


def rows(database_url: str, query: str) -> list[tuple[Any, ...]]:
    """What the database says."""
    with psycopg.connect(database_url) as connection:
        return connection.execute(query).fetchall()  # type: ignore[arg-type]  # fixed texts of the tests


HELD = """SELECT coalesce(sum(s.memory_mib), 0), count(DISTINCT p.id) FROM accounting_pod p
JOIN accounting_share s ON s.pod_id = p.id WHERE p.state IN ('reserved', 'binding', 'bound', 'running')"""

HELD_BY = HELD + " AND p.namespace = '{}'"
"""The same of one namespace."""

TWICE = "SELECT uid FROM accounting_pod GROUP BY uid HAVING count(*) > 1"

OVER = """SELECT d.uuid, sum(s.memory_mib), d.memory_mib
FROM accounting_share s JOIN accounting_pod p ON p.id = s.pod_id JOIN accounting_device d ON d.uuid = s.uuid
WHERE p.state IN ('reserved', 'binding', 'bound', 'running', 'releasing')
GROUP BY d.uuid, d.memory_mib, d.core_percent, d.slots
HAVING sum(s.memory_mib) > d.memory_mib OR sum(s.core_percent) > d.core_percent OR count(*) > d.slots"""
"""Devices that gave away more than they have, counted by SQL alone (pods without init containers)."""
