"""The side that kubelet sees: the plugin's gRPC methods, its socket, and its registration.

Methods parse, call one function, and encode. kubelet deletes every socket when it restarts, and
that is how a restart is noticed: the plugin then serves and registers again.
Must not know: Kubernetes objects, annotations, cards' hardware.
Source of the protocol: Kubernetes, k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

import grpc

from deviceplugin import board, grants, meters, refusals, register, replicas
from hami_platform import logs
from hami_platform.kube.proto import deviceplugin_pb2 as pb
from hami_platform.kube.proto import deviceplugin_pb2_grpc as rpc

API_VERSION = "v1beta1"
LOOK_S = 1.0
"""How often kubelet's socket is looked at: two stat calls."""

RETRY_S = 5.0
REGISTER_TIMEOUT_S = 5.0
STREAM_LOOK_S = 1.0
THREADS = 8

log = logs.get(__name__)


class Allocations(Protocol):
    """What Allocate and GetPreferredAllocation need; see `allocate.Allocator`."""

    def allocate(self, counts: Sequence[int]) -> tuple[grants.Grant, ...] | refusals.Refusal:
        """One grant for each count."""
        ...

    def wanted(self, counts: Sequence[int]) -> tuple[tuple[str, ...], ...]:
        """Reserved cards for each count."""
        ...


@dataclass(frozen=True, slots=True)
class Face:
    """How the node shows itself to kubelet. numa: advertise NUMA nodes, which lets kubelet reject pods."""

    folder: Path
    resource: str = "nvidia.com/gpu"
    prefer: bool = True
    numa: bool = False

    @property
    def endpoint(self) -> str:
        """`nvidia.com/gpu` -> `nvidia-gpu.sock`."""
        domain, _, name = self.resource.partition("/")
        return f"{domain.split('.')[0]}-{name}.sock"

    @property
    def options(self) -> pb.DevicePluginOptions:
        """What kubelet may call besides Allocate."""
        return pb.DevicePluginOptions(get_preferred_allocation_available=self.prefer, pre_start_required=False)


class Servicer(rpc.DevicePluginServicer):
    """The five methods of a device plugin."""

    def __init__(self, face: Face, shown: board.Board, scaling: register.Scaling, allocations: Allocations) -> None:
        self._face = face
        self._shown = shown
        self._scaling = scaling
        self._allocations = allocations

    def GetDevicePluginOptions(self, request: pb.Empty, context: grpc.ServicerContext) -> pb.DevicePluginOptions:  # noqa: N802
        """See Face.options."""
        return self._face.options

    def ListAndWatch(self, request: pb.Empty, context: grpc.ServicerContext) -> Iterator[pb.ListAndWatchResponse]:  # noqa: N802
        """All shares at once, and again after every change."""
        version = 0
        while context.is_active():
            picture = self._shown.newer(version, STREAM_LOOK_S)
            if picture is not None:
                version = picture.version
                yield listed(register.shares(picture.cards, self._scaling, numa=self._face.numa))

    def GetPreferredAllocation(  # noqa: N802
        self, request: pb.PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> pb.PreferredAllocationResponse:
        """Replicas of the reserved cards, so that kubelet's books name the cards really used."""
        asked = request.container_requests
        wanted = self._allocations.wanted([one.allocation_size for one in asked])
        cards = [card.uuid for card in self._shown.picture.cards]
        answers = [_preferred(one, uuids, cards) for one, uuids in zip(asked, wanted, strict=bool(wanted))]
        return pb.PreferredAllocationResponse(container_responses=answers)

    def Allocate(self, request: pb.AllocateRequest, context: grpc.ServicerContext) -> pb.AllocateResponse:  # noqa: N802
        """Devices for the containers of the call. Which ids kubelet picked means nothing, only how many."""
        answer = self._allocations.allocate([len(one.devices_ids) for one in request.container_requests])
        if isinstance(answer, refusals.Refusal):
            _refuse(context, answer)
        return pb.AllocateResponse(container_responses=[granted(grant) for grant in answer])

    def PreStartContainer(  # noqa: N802
        self, request: pb.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> pb.PreStartContainerResponse:
        """Nothing is left to do; kubelet is told not to ask."""
        return pb.PreStartContainerResponse()


def listed(shares: Sequence[register.Share]) -> pb.ListAndWatchResponse:
    """The list as kubelet reads it."""
    return pb.ListAndWatchResponse(
        devices=[
            pb.Device(
                ID=share.id,
                health="Healthy" if share.healthy else "Unhealthy",
                topology=None if share.numa is None else pb.TopologyInfo(nodes=[pb.NUMANode(ID=share.numa)]),
            )
            for share in shares
        ]
    )


def granted(grant: grants.Grant) -> pb.ContainerAllocateResponse:
    """A grant as kubelet reads it. The order of mounts is kept."""
    return pb.ContainerAllocateResponse(
        envs=dict(grant.envs),
        mounts=[
            pb.Mount(container_path=m.container_path, host_path=m.host_path, read_only=m.read_only)
            for m in grant.mounts
        ],
    )


def _preferred(
    one: pb.ContainerPreferredAllocationRequest, uuids: Sequence[str], cards: Collection[str]
) -> pb.ContainerPreferredAllocationResponse:
    ids = replicas.preferred(
        uuids, one.available_deviceIDs, one.must_include_deviceIDs, one.allocation_size, frozenset(cards)
    )
    return pb.ContainerPreferredAllocationResponse(deviceIDs=ids)


def _refuse(context: grpc.ServicerContext, refusal: refusals.Refusal) -> NoReturn:
    passing = refusal.reason is refusals.Reason.API
    code = grpc.StatusCode.UNAVAILABLE if passing else grpc.StatusCode.FAILED_PRECONDITION
    context.abort(code, f"{refusal.reason.value}: {refusal.message}")


class Link:
    """Serves the plugin and keeps it registered. `step` is for a Loop."""

    def __init__(self, face: Face, servicer: Servicer) -> None:
        self._face = face
        self._servicer = servicer
        self._server: grpc.Server | None = None
        self._own: tuple[int, int] | None = None
        self._registered_with: tuple[int, int] | None = None

    @property
    def path(self) -> Path:
        """The plugin's socket."""
        return self._face.folder / self._face.endpoint

    @property
    def registered(self) -> bool:
        """Whether the kubelet that runs now knows the plugin."""
        return self._registered_with is not None

    def step(self) -> float:
        """Serve and register if kubelet is there and does not know us."""
        kubelet = identity(self._face.folder / "kubelet.sock")
        served = self._server is not None and identity(self.path) == self._own
        if kubelet is None:
            meters.REGISTERED.set(0)
            return LOOK_S
        if served and kubelet == self._registered_with:
            return LOOK_S
        self._registered_with = None
        meters.REGISTERED.set(0)
        if not served:
            self._serve()
        try:
            self._register()
        except grpc.RpcError as error:
            log.warning("kubelet_registration_failed", resource=self._face.resource, error=_text(error))
            return RETRY_S
        self._registered_with = kubelet
        meters.REGISTERED.set(1)
        log.info("registered_with_kubelet", resource=self._face.resource, endpoint=self._face.endpoint)
        return LOOK_S

    def close(self) -> None:
        """Stop serving and remove the socket, unless a newer agent has put its own there."""
        if self._server is not None:
            mine = identity(self.path) == self._own
            self._server.stop(grace=1.0).wait()
            if mine:
                self.path.unlink(missing_ok=True)
            self._server = None
        self._registered_with = None

    def _serve(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)
        server = grpc.server(futures.ThreadPoolExecutor(THREADS, thread_name_prefix="kubelet"))
        rpc.add_DevicePluginServicer_to_server(self._servicer, server)
        server.add_insecure_port(f"unix://{self.path}")
        server.start()
        self._server, self._own = server, identity(self.path)

    def _register(self) -> None:
        """kubelet dials back before it answers, so the server must be up."""
        request = pb.RegisterRequest(
            version=API_VERSION,
            endpoint=self._face.endpoint,
            resource_name=self._face.resource,
            options=self._face.options,
        )
        with grpc.insecure_channel(f"unix://{self._face.folder / 'kubelet.sock'}") as channel:
            rpc.RegistrationStub(channel).Register(request, timeout=REGISTER_TIMEOUT_S)


def identity(path: Path) -> tuple[int, int] | None:
    """What changes when a socket is made anew. The inode alone is used again by some filesystems."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_ino, found.st_ctime_ns)


def _text(error: grpc.RpcError) -> str:
    """One line; the text of an RpcError is a page."""
    details = getattr(error, "details", None)
    return str(details() if callable(details) else error)
