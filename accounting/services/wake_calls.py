"""Does what the wake plan says: one patch for each pod. A pod that changed or is gone meanwhile needs no waking.

A patch that the API server refuses concerns its pod alone: others may be admitted differently (webhooks, policies).
"""

from __future__ import annotations

from collections.abc import Iterable

from accounting.services.reconcile import read_pod
from accounting.services.seen import GATE
from accounting.services.wake import Wake
from hami_platform import logs
from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors

log = logs.get(__name__)


def wake_send(api: ports.Api, plan: Iterable[Wake]) -> int:
    """Wake these pods; how many were. Raises kube errors that are no answer: unreachable, ambiguous."""
    woken = 0
    for one in plan:
        try:
            woken += _ungate(api, one) if one.ungate else _retry(api, one)
        except (errors.NotFound, errors.Conflict):
            continue
        except errors.ApiError as refusal:
            log.warning("not_woken", namespace=one.namespace, pod=one.name, uid=one.uid, why=str(refusal))
    return woken


def _retry(api: ports.Api, one: Wake) -> bool:
    api.send(calls.pod_retry(namespace=one.namespace, name=one.name, uid=one.uid, retry_at=one.retry_at))
    return True


def _ungate(api: ports.Api, one: Wake) -> bool:
    pod = read_pod(api, one.namespace, one.name)
    if pod is None or pod["metadata"]["uid"] != one.uid:
        return False
    gates = [gate["name"] for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]
    if GATE not in gates:
        return False
    api.send(
        calls.pod_remove_gate(
            namespace=one.namespace,
            name=one.name,
            uid=one.uid,
            gates=gates,
            gate=GATE,
            resource_version=pod["metadata"]["resourceVersion"],
        )
    )
    return True
