"""What node agents say of their kubelets' books: containers that hold other devices than they were given.

A report is the node's whole state, so that repeating it is harmless and what is left out is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from accounting import ledger
from accounting.models import Finding, Node
from accounting.services import findings

KIND = "kubelet-differs"
MOST = 200
"""Findings for one node; more say no more."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One container. kind: the agent's word for what differs."""

    namespace: str
    pod: str
    container: str
    kind: str
    message: str


def differences_set(*, node: str, found: Iterable[Difference]) -> bool:
    """These are the differences on this node, and all others of it are over. False: there is no such node.

    Writes only what is news, except that open findings are seen again.
    """
    cluster = ledger.cluster_id()
    if not Node.objects.filter(cluster=cluster, name=node).exists():
        return False
    now = {_subject(node, one): one for one in sorted(found, key=lambda one: _subject(node, one))[:MOST]}
    prefix = f"{node}: "
    open_ = Finding.objects.filter(cluster=cluster, kind=KIND, subject__startswith=prefix, repaired_at=None)
    before = set(open_.values_list("subject", flat=True))
    if not now and not before:
        return True
    with ledger.transaction(cause="kubelet_differences", actor=f"agent/{node}") as entry:
        for subject, one in now.items():
            evidence = {"node": node, "what": one.kind, "container": one.container}
            findings.finding_raise(entry, kind=KIND, subject=subject, message=one.message[:1000], evidence=evidence)
        for subject in sorted(before - now.keys()):
            findings.finding_close(entry, kind=KIND, subject=subject, repair="the kubelet and the agent agree again")
    return True


def _subject(node: str, one: Difference) -> str:
    """A pod's and a container's name have no blank, so a node never ends in the middle of another's."""
    return f"{node}: {one.namespace}/{one.pod} {one.container}"[:400]
