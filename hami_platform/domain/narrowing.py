"""To which nodes a pod may be bound beforehand, so that kube-scheduler's sample of a large cluster holds nodes with
devices. Must not know: how labels get onto nodes.

A label says that a vendor's devices have registered on a node. It comes a moment after the devices do, so a pod is
bound to labelled nodes only while no node with the vendor's devices lacks the label: then no node is left out on which
the pod could be placed. A node that registers later is left out until its label comes, which makes kube-scheduler try
again.
"""

from __future__ import annotations

from collections.abc import Iterable

from hami_platform.domain.rows import NodeRow


def vendors(nodes: Iterable[NodeRow]) -> frozenset[str]:
    """Vendors whose devices are on labelled nodes, and on no others; one without any node is not among them."""
    labelled: set[str] = set()
    unlabelled: set[str] = set()
    for node in nodes:
        if node.retired:
            continue
        has = {device.vendor for device in node.devices}
        labelled |= has & node.labelled
        unlabelled |= has - node.labelled
    return frozenset(labelled - unlabelled)
