"""A device plugin over real sockets, for the kubelet's tests: it remembers calls and does what it is told."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import grpc

from hami_platform.kube.proto import deviceplugin_pb2 as messages
from hami_platform.kube.proto import deviceplugin_pb2_grpc as services
from hami_platform.simulator.node import plugins


class ToyPlugin(services.DevicePluginServicer):
    """Serves `count` devices of a resource from a folder's socket; `fail` makes Allocate fail with that text."""

    def __init__(
        self, folder: Path, count: int = 4, resource: str = "nvidia.com/gpu", *, preferred: bool = True
    ) -> None:
        self._folder, self._resource = folder, resource
        self._options = messages.DevicePluginOptions(
            pre_start_required=True, get_preferred_allocation_available=preferred
        )
        self.ids = [f"GPU-{index}" for index in range(count)]
        self.sick: set[str] = set()
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.fail = ""
        self._lists: queue.Queue[bool] = queue.Queue()
        self._server = grpc.server(ThreadPoolExecutor(8))
        services.add_DevicePluginServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{folder / 'toy.sock'}")

    def __enter__(self) -> ToyPlugin:
        self._server.start()
        with grpc.insecure_channel(f"unix://{self._folder / plugins.KUBELET_SOCKET}") as channel:
            request = messages.RegisterRequest(
                version="v1beta1", endpoint="toy.sock", resource_name=self._resource, options=self._options
            )
            services.RegistrationStub(channel).Register(request, timeout=10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lists.put(False)
        self._server.stop(0).wait()

    def make_sick(self, *ids: str) -> None:
        """Report devices as unhealthy."""
        self.sick = set(ids)
        self._lists.put(True)

    def GetDevicePluginOptions(
        self, request: messages.Empty, context: grpc.ServicerContext
    ) -> messages.DevicePluginOptions:
        self.calls.append(("GetDevicePluginOptions", ()))
        return self._options

    def ListAndWatch(
        self, request: messages.Empty, context: grpc.ServicerContext
    ) -> Iterator[messages.ListAndWatchResponse]:
        more = True
        while more:
            health = {name: "Unhealthy" if name in self.sick else "Healthy" for name in self.ids}
            yield messages.ListAndWatchResponse(
                devices=[messages.Device(ID=name, health=word) for name, word in health.items()]
            )
            more = self._lists.get()

    def GetPreferredAllocation(
        self, request: messages.PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> messages.PreferredAllocationResponse:
        (wanted,) = request.container_requests
        chosen = sorted(wanted.available_deviceIDs, reverse=True)[: wanted.allocation_size]
        self.calls.append(("GetPreferredAllocation", tuple(wanted.must_include_deviceIDs)))
        return messages.PreferredAllocationResponse(
            container_responses=[messages.ContainerPreferredAllocationResponse(deviceIDs=chosen)]
        )

    def Allocate(self, request: messages.AllocateRequest, context: grpc.ServicerContext) -> messages.AllocateResponse:
        (wanted,) = request.container_requests
        self.calls.append(("Allocate", tuple(wanted.devices_ids)))
        if self.fail:
            context.abort(grpc.StatusCode.INTERNAL, self.fail)
        return messages.AllocateResponse(container_responses=[messages.ContainerAllocateResponse(envs={"A": "B"})])

    def PreStartContainer(
        self, request: messages.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> messages.PreStartContainerResponse:
        self.calls.append(("PreStartContainer", tuple(request.devices_ids)))
        return messages.PreStartContainerResponse()
