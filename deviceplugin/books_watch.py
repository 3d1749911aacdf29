"""Asks the kubelet what pods hold, again and again, and tells the platform where that is not what was given.

Must not know: what counts as a difference. Source of the protocol: Kubernetes, k8s.io/kubelet/pkg/apis/podresources/v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import grpc

from deviceplugin import board, books, checkpoint, completion, kubelet, meters, patience
from hami_platform import logs
from hami_platform.kube import api, calls, errors
from hami_platform.kube.proto import podresources_pb2 as pb
from hami_platform.kube.proto import podresources_pb2_grpc as rpc

FINDINGS = "/api/agent/findings"
UNMANAGED = "/api/agent/unmanaged"

CHECK_S = 300.0
AGAIN_S = 15.0
"""While anything differs: what is still there then is no matter of the moment, and is told; so is its end."""

TIMEOUT_S = 5.0
MOST_BYTES = 16 << 20
"""As large as the kubelet's answers may be. Source: kubelet, defaultPodResourcesMaxSize."""

log = logs.get(__name__)


class Lister:
    """The kubelet's books for one resource."""

    def __init__(self, socket: Path, resource: str) -> None:
        self._socket = socket
        self._resource = resource

    @property
    def there(self) -> bool:
        """Whether a kubelet serves them."""
        return self._socket.is_socket()

    def held(self) -> tuple[books.Held, ...]:
        """Of every container that holds some. Raises grpc.RpcError."""
        options = [("grpc.max_receive_message_length", MOST_BYTES)]
        with grpc.insecure_channel(f"unix://{self._socket}", options) as channel:
            answer = rpc.PodResourcesListerStub(channel).List(pb.ListPodResourcesRequest(), timeout=TIMEOUT_S)
        found = (
            books.Held(pod.namespace, pod.name, container.name, self._ids(container))
            for pod in answer.pod_resources
            for container in pod.containers
        )
        return tuple(one for one in found if one.ids)

    def _ids(self, container: pb.ContainerResources) -> frozenset[str]:
        """A resource has one entry for each NUMA node."""
        mine = (one.device_ids for one in container.devices if one.resource_name == self._resource)
        return frozenset(id_ for ids in mine for id_ in ids)


class BooksWatch:
    """A step for a Loop. platform None: differences are logged and counted only."""

    def __init__(
        self,
        node: str,
        kube: api.Api,
        lister: Lister,
        record: checkpoint.Checkpoint,
        shown: board.Board,
        platform: completion.Platform | None,
    ) -> None:
        self._node = node
        self._kube = kube
        self._lister = lister
        self._record = record
        self._shown = shown
        self._platform = platform
        self._before: frozenset[books.Difference] = frozenset()
        self._told: frozenset[books.Difference] | None = None
        self._counted: frozenset[books.Unmanaged] = frozenset()

    def step(self) -> float:
        """One comparison; what differs twice in a row is told."""
        if not self._lister.there:
            return AGAIN_S
        try:
            held = self._lister.held()
            pods = self._kube.send(calls.pods(node=self._node).page(), timeout_s=patience.TIMEOUT_S).items
        except grpc.RpcError as error:
            log.warning("kubelets_books_not_read", error=kubelet.said(error))
            return AGAIN_S
        except errors.KubeError as error:
            log.warning("books_not_compared", node=self._node, error=str(error))
            return AGAIN_S
        seen = books.differences(held, self._record.pods, pods)
        lasting, self._before = seen & self._before, seen
        if self._told is None and seen != lasting:
            return AGAIN_S  # a new agent says nothing, not even that all is well, before it knows
        cards = frozenset(card.uuid for card in self._shown.picture.cards)
        told = self._tell(lasting) and self._count(books.unmanaged(held, pods, cards))
        return CHECK_S if told and not seen else AGAIN_S

    def _tell(self, found: frozenset[books.Difference]) -> bool:
        """False: the platform must be told again."""
        meters.DIFFERENCES.set(len(found))
        if found == self._told:
            return True
        for one in sorted(found - (self._told or frozenset())):
            log.error("kubelet_differs", pod=f"{one.namespace}/{one.pod}", container=one.container, message=one.message)
        fields = ("namespace", "pod", "container", "kind", "message")
        listed = [{name: getattr(one, name) for name in fields} for one in sorted(found)]
        delivered = self._post({"node": self._node, "differences": listed}, FINDINGS)
        if delivered:
            self._told = found
        return delivered

    def _count(self, found: frozenset[books.Unmanaged]) -> bool:
        """Tell which cards pods use that came past the platform, so that they count."""
        for one in sorted(found - self._counted, key=lambda one: (one.namespace, one.pod)):
            log.warning("pod_past_the_platform", pod=f"{one.namespace}/{one.pod}", cards=",".join(one.cards))
            report = {"node": self._node, "namespace": one.namespace, "name": one.pod, "devices": list(one.cards)}
            if not self._post(report, UNMANAGED):
                return False
        self._counted = found
        return True

    def _post(self, report: Mapping[str, object], path: str) -> bool:
        if self._platform is None:
            return True
        try:
            self._platform.post(report, path)
        except completion.Undelivered as error:
            log.warning("difference_undelivered", path=path, error=str(error))
            return False
        except completion.Rejected as error:
            log.warning("difference_rejected", path=path, error=str(error))
        return True
