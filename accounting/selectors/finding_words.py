"""What mends each kind of finding, and where to look. It must not know how findings are found."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from accounting.models import Finding

BY_ITSELF = lazy("The next comparison with the API server, every 30 s, brings the ledger in line; nothing to do.")
MENDS = {
    "released-by-hand": lazy("Delete the pod if it still runs, then settle this."),
    "unmanaged-pod": lazy("Hold the devices that it uses, or create it anew through the webhook."),
    "undecodable-pod": lazy("Create the pod anew: its node takes no other pods until then."),
    "bound-elsewhere": lazy(
        "Find out who else binds pods. The ledger counts the node that the pod is on; settle this."
    ),
    "node-lock-stuck": lazy("Look at the pod that is to start on the node: its agent or plugin does not finish."),
    "node-lock-left-behind": lazy("Taken off; nothing to do."),
    "refit-unsettled": lazy("Both sides stay held until the comparison can ask which one it is; nothing to do."),
    "unreadable-registration": lazy("Repair or restart the node's device plugin."),
    "device-on-two-nodes": lazy("Find out which node has the device, and restart the plugin of the other one."),
    "quota-unit": lazy("Write the ResourceQuota in MiB: until then it limits nothing here."),
    "kubelet-differs": lazy("Delete the pod, and its controller makes it anew with devices that both books name."),
}
MENDS["handed-out-otherwise"] = MENDS["kubelet-differs"]


@dataclass(frozen=True, slots=True)
class Told:
    """A finding, what mends it, and the page of what it concerns."""

    row: Finding
    mends: str
    url: str


def told(row: Finding) -> Told:
    """One finding in words."""
    mends = MENDS.get(row.kind, BY_ITSELF if row.kind.startswith("drift-") else _("Look at what it concerns."))
    return Told(row, str(mends), _url(row.subject))


def _url(subject: str) -> str:
    """Pods are `namespace/name`, found by their name; anything else is a node or device, found by the search."""
    if "/" in subject and " " not in subject:
        return f"{reverse('console:pods')}?text={quote(subject.partition('/')[2])}"
    return f"{reverse('console:nodes')}?text={quote(subject.partition(' ')[0])}"
