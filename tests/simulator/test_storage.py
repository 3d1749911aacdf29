"""The storage under load: no update is lost, no event is missed or out of order, old events expire."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given, settings
from hypothesis import strategies as st

from hami_platform.simulator import apiserver, client
from hami_platform.simulator.api import registry
from hami_platform.simulator.api.store import Compacted, Stale, Store
from tests.simulator.equipment import Cluster, Obj, wait_for

PODS = "/api/v1/namespaces/default/pods"
NAMES = st.sampled_from("abc")
STEPS = st.lists(st.tuples(st.sampled_from(["put", "remove", "compact"]), NAMES), max_size=30)


@given(STEPS, st.integers(0, 30))
def test_folding_the_events_after_a_revision_onto_the_list_at_it_gives_the_list_now(
    steps: list[tuple[str, str]], at: int
) -> None:
    store = Store(window=8)
    known, revision = {}, store.revision
    for number, (kind, name) in enumerate(steps):
        if number == at:
            revision, found = store.objects(registry.PODS)
            known = {item.key: item for item in found}
        act(store, kind, name)
    try:
        position, _, _ = store.subscribe(registry.PODS, revision)
        _, _, events = store.wait(registry.PODS, position, 0)
    except Compacted:
        return  # must list again, and is told so
    assert [event.revision for event in events] == sorted(event.revision for event in events)
    for event in events:
        if event.gone:
            del known[event.after.key]
        else:
            known[event.after.key] = event.after
    assert sorted(known.values(), key=lambda item: item.key) == store.objects(registry.PODS)[1]


def act(store: Store, kind: str, name: str) -> None:
    current = store.get(registry.PODS, ("n", name))
    if kind == "compact":
        store.compact()
    elif kind == "put":
        store.put(registry.PODS, ("n", name), {"metadata": {"name": name}}, expected=current)
    elif current is not None:
        store.remove(registry.PODS, current.key, expected=current, last={"metadata": {"name": name}})


@given(st.booleans())
@settings(max_examples=2)
def test_a_write_over_another_version_is_stale(gone: bool) -> None:
    store = Store()
    first = store.put(registry.PODS, ("n", "a"), {"metadata": {}}, expected=None)
    second = store.put(registry.PODS, ("n", "a"), {"metadata": {}}, expected=first)
    if gone:
        store.remove(registry.PODS, ("n", "a"), expected=second, last={"metadata": {}})
    for expected in (first, *([second] if gone else [None])):
        try:
            store.put(registry.PODS, ("n", "a"), {"metadata": {}}, expected=expected)
        except Stale:
            continue
        raise AssertionError(expected)


def test_counting_by_optimistic_updates_loses_none() -> None:
    """Eight writers read, add one and PUT with the revision they read; conflicts try again."""
    with apiserver.ApiServer() as server:
        cluster = Cluster(server.url)
        cluster.create_pod("p", metadata={"annotations": {"n": "0"}})
        start = cluster.pod("p")["metadata"]["resourceVersion"]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: add_one(cluster), range(80)))
        assert cluster.pod("p")["metadata"]["annotations"]["n"] == "80"
        watch = cluster.api.watch(PODS, {"resourceVersion": start, "timeoutSeconds": "1"})
        seen = [int(obj["metadata"]["annotations"]["n"]) for _, obj in watch]
        assert seen == list(range(1, 81))
        cluster.api.close()


def add_one(cluster: Cluster) -> None:
    while True:
        pod = cluster.pod("p")
        notes = pod["metadata"]["annotations"]
        notes["n"] = str(int(notes["n"]) + 1)
        try:
            cluster.api.call("PUT", f"{PODS}/p", pod)
        except client.ApiFailure as failure:
            if failure.code != 409:
                raise
        else:
            return


def test_only_one_of_many_bindings_wins() -> None:
    with apiserver.ApiServer() as server:
        cluster = Cluster(server.url)
        cluster.create_pod("p")
        barrier = threading.Barrier(8)

        def bind(number: int) -> bool:
            body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": f"n{number}"}}
            barrier.wait(20)
            try:
                cluster.api.create(f"{PODS}/p/binding", body)
            except client.ApiFailure as failure:
                if failure.code != 409:
                    raise
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(bind, range(8))) == 1
        cluster.api.close()


def test_events_expire() -> None:
    with apiserver.ApiServer(events_last_s=-5.0) as server:  # every event is too old at once
        cluster = Cluster(server.url)

        def record(number: int) -> Obj:
            about = {"kind": "Pod", "namespace": "default", "name": "p"}
            body = {"metadata": {"name": f"e{number}"}, "involvedObject": about}
            return cluster.api.create("/api/v1/namespaces/default/events", body)

        for number in range(70):
            record(number)
        wait_for(lambda: len(cluster.api.get("/api/v1/events")["items"]) < 10, "the sweep")
        cluster.api.close()
