"""The kubelet's side of the device plugin API over real sockets: registration, health, allocation.

Knows nothing of pods beyond uid and container. Source: Kubernetes pkg/kubelet/cm/devicemanager, v1beta1 API.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from hami_platform.kube.proto import deviceplugin_pb2 as messages
from hami_platform.kube.proto import deviceplugin_pb2_grpc as services
from hami_platform.simulator.node import devices

KUBELET_SOCKET = "kubelet.sock"
VERSION = "v1beta1"
_CALL_S = 60.0


class AllocationError(Exception):
    """A container got no devices; the text is what the kubelet puts into the pod's message."""


@dataclass(slots=True)
class Endpoint:
    """One registered plugin."""

    resource: str
    channel: grpc.Channel
    options: messages.DevicePluginOptions
    stream: Any = None
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    """What Allocate gave to one container."""

    resource: str
    ids: tuple[str, ...]
    response: messages.ContainerAllocateResponse


@dataclass(slots=True)
class _State:
    books: dict[str, devices.Book] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    prestart: dict[tuple[str, str], list[tuple[str, tuple[str, ...]]]] = field(default_factory=dict)


class PluginManager(services.RegistrationServicer):
    """Serves `folder`/kubelet.sock; `changed` is called whenever capacity or health changes."""

    def __init__(self, folder: Path, changed: Callable[[], None]) -> None:
        self._folder = folder
        self._changed = changed
        self._lock = threading.RLock()
        self._state = _State()
        self._server: grpc.Server | None = None
        self._stopping = False

    def start(self) -> None:
        """Clear the folder of sockets, as the kubelet does, and begin to accept registrations."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for stale in self._folder.glob("*.sock"):
            stale.unlink()
        self._stopping = False
        server = grpc.server(ThreadPoolExecutor(4, thread_name_prefix="sim-register"))
        services.add_RegistrationServicer_to_server(self, server)
        server.add_insecure_port(f"unix://{self._folder / KUBELET_SOCKET}")
        server.start()
        self._server = server

    def stop(self) -> None:
        """Hang up on every plugin. What containers hold is remembered, as the kubelet's checkpoint does."""
        self._stopping = True
        with self._lock:
            endpoints = list(self._state.endpoints.values())
            self._state.endpoints.clear()
        for endpoint in endpoints:
            self._leave(endpoint)
        if self._server:
            self._server.stop(0).wait(5)
        (self._folder / KUBELET_SOCKET).unlink(missing_ok=True)

    def Register(self, request: messages.RegisterRequest, context: grpc.ServicerContext) -> messages.Empty:  # noqa: N802
        """A plugin announces itself: ask its options, answer, then follow its list."""
        if request.version != VERSION:
            said = f"requested API version {request.version!r} is not supported by kubelet"
            context.abort(grpc.StatusCode.UNKNOWN, f"{said}. Supported version is {VERSION!r}")
        if "/" not in request.resource_name:
            context.abort(grpc.StatusCode.UNKNOWN, f"the ResourceName {request.resource_name!r} is invalid")
        channel = grpc.insecure_channel(f"unix://{self._folder / request.endpoint}")
        try:
            options = services.DevicePluginStub(channel).GetDevicePluginOptions(messages.Empty(), timeout=10)
        except grpc.RpcError as failure:
            channel.close()
            context.abort(grpc.StatusCode.UNKNOWN, f"failed to dial device plugin: {failure.details()}")
        endpoint = Endpoint(request.resource_name, channel, options)
        with self._lock:
            before = self._state.endpoints.pop(request.resource_name, None)
            self._state.endpoints[request.resource_name] = endpoint
        if before:
            self._leave(before)
        threading.Thread(target=self._follow, args=(endpoint,), name="sim-listandwatch", daemon=True).start()
        return messages.Empty()

    def counts(self) -> dict[str, tuple[int, int]]:
        """(capacity, allocatable) per resource; a plugin that is gone leaves its capacity with nothing allocatable."""
        with self._lock:
            return {
                name: (len(book.health), book.healthy if name in self._state.endpoints else 0)
                for name, book in self._state.books.items()
            }

    def registered(self, resource: str) -> bool:
        """True while a plugin serves the resource."""
        with self._lock:
            return resource in self._state.endpoints

    def allocate(self, uid: str, container: str, kind: str, limits: dict[str, str]) -> list[Granted]:
        """Give a container its devices, one plugin call per resource. Raises AllocationError."""
        granted: list[Granted] = []
        for resource, size in devices.extended(limits).items():
            with self._lock:
                book, endpoint = self._state.books.get(resource), self._state.endpoints.get(resource)
            if book is None or size == 0:
                continue  # no plugin ever served it: another extender's counter
            ids = self._chosen(book, endpoint, resource, uid, container, size)
            if ids is not None:
                granted.append(self._asked(book, endpoint, resource, uid, container, kind, ids))
        return granted

    def prestart(self, uid: str, container: str) -> None:
        """PreStartContainer for plugins that want it. Raises AllocationError."""
        for resource, ids in self._state.prestart.get((uid, container), []):
            endpoint = self._state.endpoints.get(resource)
            if endpoint is None or not endpoint.options.pre_start_required:
                continue
            try:
                request = messages.PreStartContainerRequest(devices_ids=ids)
                services.DevicePluginStub(endpoint.channel).PreStartContainer(request, timeout=_CALL_S)
            except grpc.RpcError as failure:
                raise AllocationError(_rpc_text(failure)) from failure

    def release(self, uid: str) -> None:
        """The pod is over: its devices are free."""
        with self._lock:
            for book in self._state.books.values():
                book.release(uid)
            for key in [key for key in self._state.prestart if key[0] == uid]:
                del self._state.prestart[key]

    def _chosen(
        self, book: devices.Book, endpoint: Endpoint | None, resource: str, uid: str, container: str, size: int
    ) -> list[str] | None:
        prefer = None
        if endpoint and endpoint.options.get_preferred_allocation_available:
            prefer = _preference(endpoint)
        try:
            if endpoint is None:
                raise devices.NotEnough(devices.NONE_HEALTHY.format(resource))
            return book.choose(resource, uid, container, size, prefer)
        except devices.NotEnough as failure:
            raise AllocationError(str(failure)) from failure
        except grpc.RpcError as failure:
            raise AllocationError(_rpc_text(failure)) from failure

    def _asked(
        self,
        book: devices.Book,
        endpoint: Endpoint | None,
        resource: str,
        uid: str,
        container: str,
        kind: str,
        ids: list[str],
    ) -> Granted:
        if endpoint is None:
            raise AllocationError(f"endpoint not found in cache for a registered resource: {resource}")
        request = messages.AllocateRequest(container_requests=[messages.ContainerAllocateRequest(devices_ids=ids)])
        try:
            answer = services.DevicePluginStub(endpoint.channel).Allocate(request, timeout=_CALL_S)
        except grpc.RpcError as failure:
            raise AllocationError(_rpc_text(failure)) from failure
        if len(answer.container_responses) != 1:
            raise AllocationError("no containers return in allocation response")
        with self._lock:
            book.hold(uid, container, ids, kind=kind)
            self._state.prestart.setdefault((uid, container), []).append((resource, tuple(ids)))
        return Granted(resource, tuple(ids), answer.container_responses[0])

    def _follow(self, endpoint: Endpoint) -> None:
        """ListAndWatch until the plugin goes away."""
        try:
            stream = services.DevicePluginStub(endpoint.channel).ListAndWatch(messages.Empty())
            endpoint.stream = stream
            for update in stream:
                with self._lock:
                    book = self._state.books.setdefault(endpoint.resource, devices.Book())
                    book.health = {device.ID: device.health == "Healthy" for device in update.devices}
                self._changed()
        except grpc.RpcError:
            pass  # the plugin went away or was replaced
        with self._lock:
            if self._state.endpoints.get(endpoint.resource) is endpoint:
                del self._state.endpoints[endpoint.resource]
        self._leave(endpoint)
        if not self._stopping:
            self._changed()

    def _leave(self, endpoint: Endpoint) -> None:
        if endpoint.stream is not None:
            endpoint.stream.cancel()
        with contextlib.suppress(ValueError):  # closed before
            endpoint.channel.close()


def _preference(endpoint: Endpoint) -> devices.Prefer:
    def ask(available: list[str], must: list[str], size: int) -> list[str]:
        wanted = messages.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        request = messages.PreferredAllocationRequest(container_requests=[wanted])
        answer = services.DevicePluginStub(endpoint.channel).GetPreferredAllocation(request, timeout=_CALL_S)
        return list(answer.container_responses[0].deviceIDs) if answer.container_responses else []

    return ask


def _rpc_text(failure: grpc.RpcError) -> str:
    """A gRPC failure in Go's words: `rpc error: code = Internal desc = …`."""
    code, details = failure.code(), failure.details()
    word = "".join(part.capitalize() for part in code.name.split("_"))
    return f"rpc error: code = {word} desc = {details}"
