"""What the kubelet says pods hold, against what the agent gave them: over the real protocol."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from deviceplugin import board, books, books_watch, checkpoint, completion
from hami_platform.kube import errors
from hami_platform.kube.proto import podresources_pb2 as pb
from hami_platform.kube.proto import podresources_pb2_grpc as rpc
from tests.deviceplugin.builders import GPU_A, GPU_B, NODE, card, pod, running
from tests.deviceplugin.cluster import Cluster
from tests.deviceplugin.web import Web

IDS = (f"{GPU_A}-0",)
RUNNING = running()


class Books(rpc.PodResourcesListerServicer):
    """A kubelet that says that pod nlp/<name> holds these ids, by (pod, container)."""

    def __init__(self, socket: Path) -> None:
        self.held: dict[tuple[str, str], tuple[str, ...]] = {}
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        rpc.add_PodResourcesListerServicer_to_server(self, self.server)
        self.server.add_insecure_port(f"unix://{socket}")
        self.server.start()

    def List(self, request: pb.ListPodResourcesRequest, context: grpc.ServicerContext) -> pb.ListPodResourcesResponse:
        def devices(ids: tuple[str, ...]) -> list[pb.ContainerDevices]:
            # One entry for each NUMA node, and another plugin's.
            mine = [pb.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=[one]) for one in ids]
            return [*mine, pb.ContainerDevices(resource_name="example.com/nic", device_ids=["nic0"])]

        return pb.ListPodResourcesResponse(
            pod_resources=[
                pb.PodResources(
                    name=name,
                    namespace="nlp",
                    containers=[pb.ContainerResources(name=container, devices=devices(ids))],
                )
                for (name, container), ids in self.held.items()
            ]
        )


class Bench:
    def __init__(self, folder: Path, sockets: Path, web: Web) -> None:
        self.cluster = Cluster(pod(status=RUNNING))
        self.kubelet = Books(sockets / "kubelet.sock")
        self.record = checkpoint.Checkpoint(folder / "agent.json")
        self.web = web
        shown = board.Board()
        shown.publish((card(GPU_A), card(GPU_B, index=1)))
        lister = books_watch.Lister(sockets / "kubelet.sock", "nvidia.com/gpu")
        platform = completion.Platform(web.url, "t0k3n")
        self.watch = books_watch.BooksWatch(NODE, self.cluster, lister, self.record, shown, platform)

    def gave(self, *ids: str, name: str = "train") -> None:
        self.record.add(f"uid-{name}", "nlp", name, [checkpoint.Given("main", (GPU_A,), ids=ids)])

    def told(self) -> list[tuple[str, Any]]:
        return list(zip(self.web.paths, self.web.reports, strict=True))


@pytest.fixture
def bench(tmp_path: Path, sockets: Path) -> Iterator[Bench]:
    web = Web()
    made = Bench(tmp_path, sockets, web)
    yield made
    made.kubelet.server.stop(0).wait()
    web.close()


def difference(kind: str, message: str) -> dict[str, str]:
    return {"namespace": "nlp", "pod": "train", "container": "main", "kind": kind, "message": message}


def test_books_that_agree_are_told_once_so_that_old_findings_end(bench: Bench) -> None:
    bench.gave(*IDS)
    bench.kubelet.held = {("train", "main"): IDS}
    assert [bench.watch.step() for _ in range(2)] == [books_watch.CHECK_S] * 2
    assert bench.told() == [(books_watch.FINDINGS, {"node": NODE, "differences": []})]


@pytest.mark.parametrize(
    "gave, held, kind, message",
    [
        (None, IDS, books.UNRECORDED, f"the kubelet has given it {GPU_A}-0, and the agent has no record of it"),
        (
            (f"{GPU_B}-1",),
            IDS,
            books.OTHER_IDS,
            f"the kubelet says that it holds {GPU_A}-0, the agent was asked for {GPU_B}-1",
        ),
        (IDS, (), books.NOT_HELD, "the agent gave it devices, and the kubelet says that it holds none"),
    ],
)
def test_a_difference_that_lasts_is_told_and_so_is_its_end(
    bench: Bench, gave: tuple[str, ...] | None, held: tuple[str, ...], kind: str, message: str
) -> None:
    if gave is not None:
        bench.gave(*gave)
    bench.kubelet.held = {("train", "main"): held}
    assert bench.watch.step() == books_watch.AGAIN_S
    assert bench.told() == []
    assert bench.watch.step() == books_watch.AGAIN_S
    assert bench.told() == [(books_watch.FINDINGS, {"node": NODE, "differences": [difference(kind, message)]})]
    bench.cluster.remove_pod("train")
    assert bench.watch.step() == books_watch.CHECK_S
    assert bench.web.reports[-1] == {"node": NODE, "differences": []}


def test_a_difference_of_a_moment_is_not_told(bench: Bench) -> None:
    bench.kubelet.held = {("train", "main"): IDS}
    bench.watch.step()
    bench.gave(*IDS)
    bench.watch.step()
    assert bench.told() == [(books_watch.FINDINGS, {"node": NODE, "differences": []})]


@pytest.mark.parametrize(
    "status", [{"phase": "Pending"}, {"phase": "Succeeded"}, {"containerStatuses": [{"name": "main", "state": {}}]}]
)
def test_a_container_that_does_not_run_need_not_be_listed(bench: Bench, status: dict[str, Any]) -> None:
    bench.gave(*IDS)
    bench.cluster.put(pod(status=status))
    assert bench.watch.step() == books_watch.CHECK_S
    assert bench.web.reports == [{"node": NODE, "differences": []}]


def test_a_record_of_an_older_agent_names_no_ids_and_differs_from_none(bench: Bench) -> None:
    bench.gave()
    bench.kubelet.held = {("train", "main"): IDS}
    assert bench.watch.step() == books_watch.CHECK_S


def test_cards_of_a_pod_that_came_past_the_platform_are_told_so_that_they_count(bench: Bench) -> None:
    bench.cluster.put(pod("raw", rows=None, status=RUNNING))
    bench.kubelet.held = {("raw", "main"): (f"{GPU_B}-3", f"{GPU_B}-4", f"{GPU_A}-1")}
    for _ in range(2):
        assert bench.watch.step() == books_watch.CHECK_S
    report = {"node": NODE, "namespace": "nlp", "name": "raw", "devices": [GPU_A, GPU_B]}
    assert bench.told()[1:] == [(books_watch.UNMANAGED, report)]


def test_what_the_platform_did_not_hear_is_told_again(bench: Bench) -> None:
    bench.web.codes = [503]
    assert bench.watch.step() == books_watch.AGAIN_S
    assert bench.watch.step() == books_watch.CHECK_S
    assert len(bench.web.reports) == 2


def test_without_an_answer_nothing_is_said(bench: Bench) -> None:
    bench.cluster.fail = [errors.Unreachable("refused")]
    assert bench.watch.step() == books_watch.AGAIN_S
    bench.kubelet.server.stop(0).wait()
    assert bench.watch.step() == books_watch.AGAIN_S
    assert bench.told() == []
