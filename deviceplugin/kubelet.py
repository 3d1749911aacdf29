"""The side that kubelet sees: the plugin's gRPC methods, its socket, and its registration.

Methods parse, call one function, and encode. kubelet deletes every socket when it restarts, and
that is how a restart is noticed: the plugin then serves and registers again.
Must not know: Kubernetes objects, annotations, cards' hardware.
Source of the protocol: Kubernetes, k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

import grpc

from deviceplugin import board, grants, inventory, meters, refusals, register, replicas
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


Offer = Callable[[Sequence[inventory.Card]], Sequence[register.Share]]
"""What of the node's cards is advertised under one resource."""


class Allocations(Protocol):
    """What answers kubelet's calls; see `allocate.Allocator`."""

    def allocate(self, asked: Sequence[Sequence[str]]) -> tuple[grants.Grant, ...] | refusals.Refusal:
        """One grant for each list of ids."""
        ...

    def preferred(self, choices: Sequence[replicas.Choice]) -> tuple[tuple[str, ...], ...] | refusals.Refusal:
        """Ids for each choice; none where kubelet may pick freely."""
        ...

    def before_start(self, ids: Sequence[str]) -> refusals.Refusal | None:
        """Called before a container with these ids starts, where Face.pre_start says so."""
        ...


@dataclass(frozen=True, slots=True)
class Face:
    """How the node shows one resource to kubelet."""

    folder: Path
    resource: str = "nvidia.com/gpu"
    prefer: bool = True
    pre_start: bool = False

    @property
    def endpoint(self) -> str:
        """`nvidia.com/gpu` -> `nvidia-gpu.sock`."""
        domain, _, name = self.resource.partition("/")
        return f"{domain.split('.')[0]}-{name}.sock"

    @property
    def options(self) -> pb.DevicePluginOptions:
        """What kubelet may call besides Allocate."""
        return pb.DevicePluginOptions(get_preferred_allocation_available=self.prefer, pre_start_required=self.pre_start)


class Servicer(rpc.DevicePluginServicer):
    """The five methods of a device plugin."""

    def __init__(self, face: Face, shown: board.Board, offer: Offer, allocations: Allocations) -> None:
        self._face = face
        self._shown = shown
        self._offer = offer
        self._allocations = allocations

    def GetDevicePluginOptions(self, request: pb.Empty, context: grpc.ServicerContext) -> pb.DevicePluginOptions:  # noqa: N802
        """See Face.options."""
        return self._face.options

    def ListAndWatch(self, request: pb.Empty, context: grpc.ServicerContext) -> Iterator[pb.ListAndWatchResponse]:  # noqa: N802
        """All shares at once, and again after every change of them."""
        version, told = 0, None
        while context.is_active():
            picture = self._shown.newer(version, STREAM_LOOK_S)
            if picture is None:
                continue
            version = picture.version
            if (shares := self._offer(picture.cards)) != told:
                told = shares
                yield listed(shares)

    def GetPreferredAllocation(  # noqa: N802
        self, request: pb.PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> pb.PreferredAllocationResponse:
        """What kubelet should pick, so that its books name what is really used."""
        answer = self._allocations.preferred([_choice(one) for one in request.container_requests])
        if isinstance(answer, refusals.Refusal):
            _refuse(context, answer)
        responses = [pb.ContainerPreferredAllocationResponse(deviceIDs=ids) for ids in answer]
        return pb.PreferredAllocationResponse(container_responses=responses)

    def Allocate(self, request: pb.AllocateRequest, context: grpc.ServicerContext) -> pb.AllocateResponse:  # noqa: N802
        """Devices for the containers of the call."""
        answer = self._allocations.allocate([tuple(one.devices_ids) for one in request.container_requests])
        if isinstance(answer, refusals.Refusal):
            _refuse(context, answer)
        return pb.AllocateResponse(container_responses=[granted(grant) for grant in answer])

    def PreStartContainer(  # noqa: N802
        self, request: pb.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> pb.PreStartContainerResponse:
        """What the container was given is made sure of; kubelet tries again after a refusal."""
        if refusal := self._allocations.before_start(tuple(request.devices_ids)):
            _refuse(context, refusal)
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
        devices=[
            pb.DeviceSpec(container_path=one.container_path, host_path=one.host_path, permissions="rw")
            for one in grant.specs
        ],
        annotations=dict(grant.annotations),
        cdi_devices=[pb.CDIDevice(name=name) for name in grant.cdi],
    )


def _choice(one: pb.ContainerPreferredAllocationRequest) -> replicas.Choice:
    return replicas.Choice(tuple(one.available_deviceIDs), tuple(one.must_include_deviceIDs), one.allocation_size)


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
        return (
            self._registered_with is not None and identity(self._face.folder / "kubelet.sock") == self._registered_with
        )

    def step(self) -> float:
        """Serve and register if kubelet is there and does not know us."""
        kubelet = identity(self._face.folder / "kubelet.sock")
        served = self._server is not None and identity(self.path) == self._own
        if kubelet is None:
            meters.REGISTERED.labels(self._face.resource).set(0)
            return LOOK_S
        if served and kubelet == self._registered_with:
            return LOOK_S
        self._registered_with = None
        meters.REGISTERED.labels(self._face.resource).set(0)
        if not served:
            self._serve()
        try:
            self._register()
        except grpc.RpcError as error:
            log.warning("kubelet_registration_failed", resource=self._face.resource, error=said(error))
            return RETRY_S
        self._registered_with = kubelet
        meters.REGISTERED.labels(self._face.resource).set(1)
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


class Links:
    """All resources of the node. wanted: those of the moment, asked again at each step; `step` is for a Loop.

    One that is no longer wanted stays, with nothing on offer: kubelet keeps its name until it restarts.
    """

    def __init__(self, wanted: Callable[[], Mapping[str, Callable[[], Link]]]) -> None:
        self._wanted = wanted
        self._links: dict[str, Link] = {}

    def step(self) -> float:
        """One step of each."""
        for resource, make in self._wanted().items():
            if resource not in self._links:
                self._links[resource] = make()
        return min(link.step() for link in self._links.values())

    def unregistered(self) -> list[str]:
        """Resources that the running kubelet does not know; those of the moment before the first step."""
        links = dict(self._links)
        return [name for name in links or self._wanted() if name not in links or not links[name].registered]

    def close(self) -> None:
        """Stop serving all."""
        for link in self._links.values():
            link.close()


def identity(path: Path) -> tuple[int, int] | None:
    """What changes when a socket is made anew. The inode alone is used again by some filesystems."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_ino, found.st_ctime_ns)


def said(error: grpc.RpcError) -> str:
    """One line; the text of an RpcError is a page."""
    details = getattr(error, "details", None)
    return str(details() if callable(details) else error)
