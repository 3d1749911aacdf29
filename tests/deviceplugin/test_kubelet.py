"""The plugin as kubelet sees it: the real protocol over real sockets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc
import pytest

from deviceplugin import board, grants, kubelet, offers, refusals, register, replicas
from hami_platform.kube.proto import deviceplugin_pb2 as pb
from tests.deviceplugin.builders import GPU_A, GPU_B, card
from tests.deviceplugin.stub_kubelet import StubKubelet

GRANT = grants.Grant(
    {"NVIDIA_VISIBLE_DEVICES": GPU_A},
    (grants.Mount("/b", "/host/b", read_only=True), grants.Mount("/a", "/host/a", read_only=False)),  # type: ignore[attr-defined]
)


class Fixed:
    """Allocations that always answer the same."""

    def __init__(self) -> None:
        self.answer: tuple[grants.Grant, ...] | refusals.Refusal = (GRANT,)
        self.ids: tuple[tuple[str, ...], ...] | refusals.Refusal = ((f"{GPU_B}-0",),)
        self.missing: refusals.Refusal | None = None
        self.calls: list[object] = []

    def allocate(self, asked: Sequence[Sequence[str]]) -> tuple[grants.Grant, ...] | refusals.Refusal:
        self.calls.append(asked)
        return self.answer

    def preferred(self, choices: Sequence[replicas.Choice]) -> tuple[tuple[str, ...], ...] | refusals.Refusal:
        self.calls.append(choices)
        return self.ids

    def before_start(self, ids: Sequence[str]) -> refusals.Refusal | None:
        self.calls.append(ids)
        return self.missing


class Node:
    """A plugin and a kubelet in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shown = board.Board()
        self.shown.publish((card(GPU_A), card(GPU_B, index=1)))
        self.fixed = Fixed()
        face = kubelet.Face(folder)
        offer = offers.shared(register.Scaling(slots=2), numa=False, strategy=offers.NONE)
        servicer = kubelet.Servicer(face, self.shown, offer, self.fixed)
        self.link = kubelet.Link(face, servicer)
        self.kubelet = StubKubelet(folder)


@pytest.fixture
def node(sockets: Path) -> Iterator[Node]:
    made = Node(sockets)
    made.kubelet.start()
    made.link.step()
    made.kubelet.wait(lambda k: k.lists)
    yield made
    made.kubelet.stop()
    made.link.close()


def test_registration_says_version_endpoint_resource_and_options(node: Node) -> None:
    (request,) = node.kubelet.requests
    assert (request.version, request.endpoint, request.resource_name) == (
        "v1beta1",
        "nvidia-gpu.sock",
        "nvidia.com/gpu",
    )
    assert request.options.get_preferred_allocation_available
    assert node.kubelet.options == [request.options]
    assert node.link.registered


def test_every_share_is_listed_healthy(node: Node) -> None:
    assert node.kubelet.lists[-1] == {f"{uuid}-{n}": "Healthy" for uuid in (GPU_A, GPU_B) for n in (0, 1)}


def test_h53_a_card_that_breaks_and_recovers_is_listed_again_each_time(node: Node) -> None:
    node.shown.publish((card(GPU_A, healthy=False), card(GPU_B, index=1)))
    node.kubelet.wait(lambda k: k.lists[-1][f"{GPU_A}-0"] == "Unhealthy")
    assert node.kubelet.lists[-1][f"{GPU_B}-0"] == "Healthy"
    node.shown.publish((card(GPU_A), card(GPU_B, index=1)))
    node.kubelet.wait(lambda k: k.lists[-1][f"{GPU_A}-0"] == "Healthy")
    assert len(node.kubelet.requests) == 1


def test_allocate_answers_env_and_mounts_in_order(node: Node) -> None:
    (answer,) = node.kubelet.allocate([f"{GPU_B}-1"]).container_responses
    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": GPU_A}
    assert [(m.container_path, m.host_path, m.read_only) for m in answer.mounts] == [
        ("/b", "/host/b", True),
        ("/a", "/host/a", False),
    ]
    assert node.fixed.calls == [[(f"{GPU_B}-1",)]]


def test_a_refusal_reaches_kubelet_with_its_reason_and_sentence(node: Node) -> None:
    node.fixed.answer = refusals.Refusal(refusals.Reason.COUNT_MISMATCH, "device number not matched: pod nlp/train")
    with pytest.raises(grpc.RpcError) as caught:
        node.kubelet.allocate([f"{GPU_A}-0", f"{GPU_A}-1"])
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION  # type: ignore[attr-defined]
    assert caught.value.details() == "DeviceNumberNotMatched: device number not matched: pod nlp/train"  # type: ignore[attr-defined]


def test_what_kubelet_leaves_open_reaches_the_choice_and_the_choice_kubelet(node: Node) -> None:
    available = [f"{GPU_A}-0", f"{GPU_B}-0", f"{GPU_B}-1"]
    assert node.kubelet.preferred(available, [f"{GPU_A}-0"], 1) == [f"{GPU_B}-0"]
    assert node.fixed.calls == [[replicas.Choice(tuple(available), (f"{GPU_A}-0",), 1)]]
    node.fixed.ids = ()
    assert node.kubelet.preferred(available, [], 1) == []


def test_a_choice_that_is_refused_fails_the_pod(node: Node) -> None:
    node.fixed.ids = refusals.Refusal(refusals.Reason.NUMA, "pod nlp/train asks for strict NUMA alignment")
    with pytest.raises(grpc.RpcError) as caught:
        node.kubelet.preferred([f"{GPU_A}-0"], [], 1)
    assert caught.value.details().startswith("NumaAlignmentUnmet: pod nlp/train")  # type: ignore[attr-defined, union-attr]


def test_before_a_start_what_was_given_must_be_there(node: Node) -> None:
    request = pb.PreStartContainerRequest(devices_ids=[f"{GPU_A}-0"])
    assert node.kubelet.plugin.PreStartContainer(request, timeout=5) is not None
    node.fixed.missing = refusals.Refusal(refusals.Reason.HOST, "cannot prepare /x")
    with pytest.raises(grpc.RpcError, match="HostNotReady: cannot prepare /x"):
        node.kubelet.plugin.PreStartContainer(request, timeout=5)
    assert node.fixed.calls == [(f"{GPU_A}-0",)] * 2


@pytest.mark.parametrize("prefer, pre_start", [(True, False), (False, True)])
def test_options_say_what_kubelet_may_call(sockets: Path, prefer: bool, pre_start: bool) -> None:
    options = kubelet.Face(sockets, prefer=prefer, pre_start=pre_start).options
    assert (options.get_preferred_allocation_available, options.pre_start_required) == (prefer, pre_start)


def test_a_restarted_kubelet_is_registered_with_again(node: Node) -> None:
    node.kubelet.restart()
    node.link.step()
    node.kubelet.wait(lambda k: len(k.requests) == 2 and len(k.lists) == 2)
    node.kubelet.allocate([f"{GPU_A}-0"])


def test_a_deleted_socket_is_made_anew(node: Node) -> None:
    node.link.path.unlink()
    node.link.step()
    node.kubelet.wait(lambda k: len(k.requests) == 2)
    assert node.link.path.is_socket()


def test_an_undisturbed_kubelet_is_left_alone(node: Node) -> None:
    for _ in range(3):
        assert node.link.step() == kubelet.LOOK_S
    assert len(node.kubelet.requests) == 1


def test_stopping_removes_the_socket(node: Node) -> None:
    node.link.close()
    assert not node.link.path.exists()
    assert not node.link.registered


def test_without_a_kubelet_nothing_is_served(sockets: Path) -> None:
    node = Node(sockets)
    assert node.link.step() == kubelet.LOOK_S
    assert list(sockets.iterdir()) == []


def test_a_kubelet_that_does_not_answer_is_tried_again(sockets: Path) -> None:
    (sockets / "kubelet.sock").touch()
    node = Node(sockets)
    assert node.link.step() == kubelet.RETRY_S
    assert not node.link.registered
    node.link.close()


@pytest.mark.parametrize("resource, endpoint", [("nvidia.com/gpu", "nvidia-gpu.sock"), ("gpu", "gpu-.sock")])
def test_endpoint_follows_the_resource(resource: str, endpoint: str) -> None:
    assert kubelet.Face(Path("/x"), resource).endpoint == endpoint


def test_stopping_ends_open_streams(node: Node) -> None:
    node.link.close()
    assert node.kubelet.streams_ended()
