"""A kubelet's device manager over real sockets: it takes registrations and dials the plugin back.

As the real one: it dials GetDevicePluginOptions before Register is answered, keeps one
ListAndWatch stream open, and deletes every socket of the folder when it starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from pathlib import Path

import grpc

from hami_platform.kube.proto import deviceplugin_pb2 as pb
from hami_platform.kube.proto import deviceplugin_pb2_grpc as rpc

WAIT_S = 20.0


class StubKubelet(rpc.RegistrationServicer):
    """Start, then `wait` for what should become true; `restart` is a new kubelet in the same folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[pb.RegisterRequest] = []
        self.options: list[pb.DevicePluginOptions] = []
        self.lists: list[dict[str, str]] = []
        self.topology: dict[str, list[int]] = {}
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._channels: list[grpc.Channel] = []

    def start(self) -> None:
        for path in self.folder.glob("*.sock"):
            path.unlink()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        rpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{self.folder / 'kubelet.sock'}")
        self._server.start()

    def stop(self) -> None:
        self.hang_up()
        if server := getattr(self, "_server", None):
            server.stop(0).wait()

    def hang_up(self) -> None:
        for channel in self._channels:
            channel.close()
        self.streams_ended()

    def streams_ended(self) -> bool:
        for thread in self._threads:
            thread.join(WAIT_S)
        return not any(thread.is_alive() for thread in self._threads)

    def restart(self) -> None:
        self.stop()
        self.start()

    def Register(self, request: pb.RegisterRequest, context: grpc.ServicerContext) -> pb.Empty:
        channel = grpc.insecure_channel(f"unix://{self.folder / request.endpoint}")
        self._channels.append(channel)
        self.plugin = rpc.DevicePluginStub(channel)
        options = self.plugin.GetDevicePluginOptions(pb.Empty(), timeout=5)
        self._note(lambda: (self.requests.append(request), self.options.append(options)))
        thread = threading.Thread(target=self._watch, args=(self.plugin,), daemon=True)
        thread.start()
        self._threads.append(thread)  # whoever hangs up joins those in the list
        return pb.Empty()

    def allocate(self, *ids: Sequence[str]) -> pb.AllocateResponse:
        asked = [pb.ContainerAllocateRequest(devices_ids=one) for one in ids]
        return self.plugin.Allocate(pb.AllocateRequest(container_requests=asked), timeout=10)

    def preferred(self, available: Sequence[str], must: Sequence[str], size: int) -> list[str]:
        one = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        answer = self.plugin.GetPreferredAllocation(pb.PreferredAllocationRequest(container_requests=[one]), timeout=10)
        return list(answer.container_responses[0].deviceIDs) if answer.container_responses else []

    def wait(self, true: Callable[[StubKubelet], object]) -> None:
        """Raises AssertionError when it does not become true."""
        with self._changed:
            assert self._changed.wait_for(lambda: true(self), WAIT_S), (self.requests, self.lists)

    def _watch(self, plugin: rpc.DevicePluginStub) -> None:
        try:
            for answer in plugin.ListAndWatch(pb.Empty()):
                health = {device.ID: device.health for device in answer.devices}
                places = {device.ID: [node.ID for node in device.topology.nodes] for device in answer.devices}
                self._note(lambda health=health: self.lists.append(health))  # type: ignore[misc]
                self.topology = places
        except (grpc.RpcError, ValueError):
            return  # hung up

    def _note(self, change: Callable[[], object]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()
