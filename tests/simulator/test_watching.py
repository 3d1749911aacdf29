"""Lists and watches of the simulated API server: pages, selectors, bookmarks, 410, cut connections."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from hami_platform.simulator import apiserver, client
from tests.simulator.equipment import Cluster, Obj, wait_for

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def api() -> Iterator[apiserver.ApiServer]:
    with apiserver.ApiServer() as server:
        yield server


@pytest.fixture
def cluster(api: apiserver.ApiServer) -> Iterator[Cluster]:
    made = Cluster(api.url)
    yield made
    made.api.close()


def failure(call: object, *args: object, **kwargs: object) -> client.ApiFailure:
    with pytest.raises(client.ApiFailure) as caught:
        call(*args, **kwargs)  # type: ignore[operator]
    return caught.value


def test_pages_show_one_revision_whatever_happens_between(cluster: Cluster) -> None:
    for index in range(5):
        cluster.create_pod(f"p{index}")
    first = cluster.api.call("GET", PODS, query={"limit": "2"})
    assert first["metadata"]["remainingItemCount"] == 3
    cluster.api.delete(f"{PODS}/p3")
    second = cluster.api.call("GET", PODS, query={"limit": "5", "continue": first["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in second["items"]] == ["p2", "p3", "p4"]
    assert second["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


def test_list_items_come_without_kind(cluster: Cluster) -> None:
    cluster.create_pod("p")
    found = cluster.api.get(PODS)
    assert found["kind"] == "PodList"
    assert not {"kind", "apiVersion"} & set(found["items"][0])


@pytest.mark.parametrize(
    "query, names",
    [
        ({"labelSelector": "app=a"}, ["p1"]),
        ({"labelSelector": "app in (a,b),!x"}, ["p1", "p2"]),
        ({"labelSelector": "app!=a"}, ["p2", "p3"]),
        ({"fieldSelector": "metadata.name=p3"}, ["p3"]),
        ({"fieldSelector": "spec.nodeName=n"}, ["p2"]),
        ({"fieldSelector": "spec.nodeName="}, ["p1", "p3"]),
        ({"fieldSelector": "status.phase!=Pending"}, []),
    ],
)
def test_selectors(cluster: Cluster, query: dict[str, str], names: list[str]) -> None:
    cluster.create_pod("p1", metadata={"labels": {"app": "a"}})
    cluster.create_pod("p2", metadata={"labels": {"app": "b"}}, nodeName="n")
    cluster.create_pod("p3")
    assert [item["metadata"]["name"] for item in cluster.api.call("GET", PODS, query=query)["items"]] == names


def test_an_unsupported_field_is_refused_by_name(cluster: Cluster) -> None:
    refused = failure(cluster.api.call, "GET", PODS, query={"fieldSelector": "spec.foo=1"})
    assert refused.code == 400
    assert "field label not supported: spec.foo" in refused.message


def test_a_watch_misses_nothing_after_its_revision(cluster: Cluster) -> None:
    start = cluster.api.get(PODS)["metadata"]["resourceVersion"]
    cluster.create_pod("p")
    cluster.api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    cluster.api.delete(f"{PODS}/p")
    events = cluster.api.watch(PODS, {"resourceVersion": start, "timeoutSeconds": "1"})
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED"]
    events.close()


def test_a_pod_that_leaves_a_selector_is_deleted_for_its_watch(cluster: Cluster) -> None:
    start = cluster.api.get(PODS)["metadata"]["resourceVersion"]
    cluster.create_pod("p", metadata={"labels": {"a": "1"}})
    cluster.api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "2"}}})
    cluster.api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "1"}}})
    events = cluster.api.watch(PODS, {"resourceVersion": start, "labelSelector": "a=1", "timeoutSeconds": "1"})
    assert [kind for kind, _ in events] == ["ADDED", "DELETED", "ADDED"]
    events.close()


def test_a_watch_without_a_revision_begins_with_what_is_there(cluster: Cluster) -> None:
    cluster.create_pod("p")
    events = cluster.api.watch(PODS, {"timeoutSeconds": "1"})
    assert [(kind, obj["metadata"]["name"]) for kind, obj in events] == [("ADDED", "p")]
    events.close()


def test_a_watch_list_ends_its_first_part_with_an_annotated_bookmark(cluster: Cluster) -> None:
    cluster.create_pod("p")
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "1",
    }
    events = cluster.api.watch(PODS, query)
    found = list(events)
    events.close()
    assert [kind for kind, _ in found][:2] == ["ADDED", "BOOKMARK"]
    assert found[1][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_bookmarks_carry_the_newest_revision(cluster: Cluster) -> None:
    start = cluster.api.get(PODS)["metadata"]["resourceVersion"]
    newest = cluster.create_node("n")["metadata"]["resourceVersion"]
    events = cluster.api.watch(PODS, {"resourceVersion": start, "allowWatchBookmarks": "true", "timeoutSeconds": "1"})
    (last,) = [obj for kind, obj in events if kind == "BOOKMARK"]
    events.close()
    assert int(last["metadata"]["resourceVersion"]) >= int(newest)


def test_a_compacted_revision_is_410_inside_the_stream(cluster: Cluster, api: apiserver.ApiServer) -> None:
    start = cluster.api.get(PODS)["metadata"]["resourceVersion"]
    cluster.create_pod("p")
    api.fault.compact()
    ((kind, status),) = cluster.api.watch(PODS, {"resourceVersion": start})
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")


def test_a_window_that_moved_on_is_410_too() -> None:
    with apiserver.ApiServer(window=5) as small:
        cluster = Cluster(small.url)
        for index in range(20):
            cluster.create_pod(f"p{index}")
        ((kind, status),) = cluster.api.watch(PODS, {"resourceVersion": "2"})
        assert (kind, status["code"]) == ("ERROR", 410)
        cluster.api.close()


def test_a_continue_token_from_before_a_compaction_is_410(cluster: Cluster, api: apiserver.ApiServer) -> None:
    for index in range(3):
        cluster.create_pod(f"p{index}")
    token = cluster.api.call("GET", PODS, query={"limit": "1"})["metadata"]["continue"]
    api.fault.compact()
    assert failure(cluster.api.call, "GET", PODS, query={"limit": "1", "continue": token}).code == 410


def test_cut_watches_end_and_may_begin_again(cluster: Cluster, api: apiserver.ApiServer) -> None:
    events = cluster.api.watch(PODS, {"resourceVersion": cluster.api.get(PODS)["metadata"]["resourceVersion"]})
    ended = threading.Thread(target=lambda: list(events))
    ended.start()
    api.fault.cut_watches()
    ended.join(10)
    assert not ended.is_alive()
    events.close()


def test_a_mirror_survives_cuts_compactions_and_an_outage(cluster: Cluster, api: apiserver.ApiServer) -> None:
    names: set[str] = set()

    def changed(before: Obj | None, after: Obj | None) -> None:
        (names.add if after else names.discard)((after or before or {})["metadata"]["name"])

    mirror = client.Mirror(cluster.api, PODS, changed)
    mirror.start()
    cluster.create_pod("a")
    wait_for(lambda: names == {"a"})
    api.fault.compact()
    api.fault.cut_watches()
    cluster.create_pod("b")
    wait_for(lambda: names == {"a", "b"})
    api.fault.outage()
    api.fault.lift()
    cluster.api.delete(f"{PODS}/a")
    wait_for(lambda: names == {"b"})
    mirror.stop()
