"""The reflector and the feed against a real HTTP server.

| what happens to the watch | what follows |
|---|---|
| ends, is cut, or is silent | resumed from the last revision |
| 410, on opening or inside | a new list |
| refused, unreachable | Failed, then another try |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors, feed, listwatch, objects
from tests.kube import stub

QUICK = listwatch.Timing(page=2, idle_s=5, first_wait_s=0.01, longest_wait_s=0.05)


def pod(name: str, revision: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(revision)}}


def page(*names: str, revision: int = 1, token: str = "") -> stub.Answer:
    meta = {"resourceVersion": str(revision), "continue": token}
    return stub.reply({"metadata": meta, "items": [pod(name, revision) for name in names]})


def change(type_: str, name: str, revision: int) -> dict[str, Any]:
    return {"type": type_, "object": pod(name, revision)}


EXPIRED = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


def follow(tmp_path: Path, api: stub.StubApi, timing: listwatch.Timing = QUICK) -> listwatch.Reflector[objects.Pod]:
    return listwatch.Reflector(stub.connect(tmp_path, api.url), calls.pods(), timing)


def told(batches: Iterator[listwatch.Batch[objects.Pod]], count: int) -> list[str]:
    """The first batches that are not failures, in short: `list a,b @1`, `+c @2`, `-c @3`."""
    good = (batch for batch in batches if not isinstance(batch, listwatch.Failed))
    return [_short(batch) for batch in islice(good, count)]


def _short(batch: listwatch.Batch[objects.Pod]) -> str:
    if isinstance(batch, listwatch.Listed):
        return f"list {','.join(item.metadata.name for item in batch.items)} @{batch.revision}"
    assert isinstance(batch, listwatch.Changed)
    signs = ["-" if event.deleted else "+" for event in batch.events]
    names = [event.object.metadata.name for event in batch.events]
    return f"{','.join(s + n for s, n in zip(signs, names, strict=True))} @{batch.revision}"


def test_pages_are_one_list_and_changes_follow(tmp_path: Path) -> None:
    watch = stub.lines(change("ADDED", "d", 2), change("DELETED", "a", 3), then="hang")
    with stub.StubApi(page("a", "b", token="t"), page("c"), watch) as api:
        assert told(follow(tmp_path, api).batches(), 3) == ["list a,b,c @1", "+d @2", "-a @3"]
    assert [seen.query.get("continue") for seen in api.seen[:2]] == [None, "t"]
    assert "resourceVersion" not in api.seen[0].query
    assert api.seen[2].query["resourceVersion"] == "1"


@pytest.mark.parametrize("then", ["end", "cut"])
def test_a_watch_that_ends_resumes_after_the_last_event(tmp_path: Path, then: str) -> None:
    first = stub.lines(change("ADDED", "b", 2), then=then)
    second = stub.lines(change("ADDED", "c", 3), then="hang")
    with stub.StubApi(page("a"), first, second) as api:
        assert told(follow(tmp_path, api).batches(), 3) == ["list a @1", "+b @2", "+c @3"]
    assert api.seen[2].query["resourceVersion"] == "2"


def test_a_bookmark_moves_the_revision_without_a_batch(tmp_path: Path) -> None:
    first = stub.lines({"type": "BOOKMARK", "object": pod("", 9)})
    second = stub.lines(change("ADDED", "b", 10), then="hang")
    with stub.StubApi(page("a"), first, second) as api:
        assert told(follow(tmp_path, api).batches(), 2) == ["list a @1", "+b @10"]
    assert api.seen[2].query["resourceVersion"] == "9"


@pytest.mark.parametrize("gone", [stub.lines(EXPIRED), stub.refuse(410, "Expired")])
def test_a_revision_that_is_too_old_lists_again(tmp_path: Path, gone: stub.Answer) -> None:
    with stub.StubApi(page("a"), gone, page("b", revision=7)) as api:
        assert told(follow(tmp_path, api).batches(), 2) == ["list a @1", "list b @7"]


def test_an_expired_page_token_lists_again_unpaged(tmp_path: Path) -> None:
    with stub.StubApi(page("a", token="t"), stub.refuse(410, "Expired"), page("a", "b", "c")) as api:
        assert told(follow(tmp_path, api).batches(), 1) == ["list a,b,c @1"]
    assert "limit" not in api.seen[2].query


def test_failures_are_told_and_tried_again(tmp_path: Path) -> None:
    refusal = stub.refuse(403, "Forbidden")
    with stub.StubApi(refusal, page("a"), refusal, stub.lines(change("ADDED", "b", 2), then="hang")) as api:
        batches = list(islice(follow(tmp_path, api).batches(), 4))
    kinds = [type(batch).__name__ for batch in batches]
    assert kinds == ["Failed", "Listed", "Failed", "Changed"]
    assert isinstance(batches[0], listwatch.Failed)
    assert isinstance(batches[0].error, errors.Unauthorized)


def test_a_watch_cut_before_its_first_event_backs_off(tmp_path: Path) -> None:
    with stub.StubApi(page("a"), stub.lines(then="cut")) as api:
        batches = list(islice(follow(tmp_path, api).batches(), 2))
    assert isinstance(batches[1], listwatch.Failed)


def test_an_event_of_the_wrong_shape_is_told_and_not_skipped(tmp_path: Path) -> None:
    bad = stub.lines({"type": "ADDED", "object": {"metadata": {"name": 7}}})
    with stub.StubApi(page("a"), bad, stub.lines(change("ADDED", "b", 2), then="hang")) as api:
        batches = list(islice(follow(tmp_path, api).batches(), 3))
    assert isinstance(batches[1], listwatch.Failed)
    assert api.seen[2].query["resourceVersion"] == "1"


def test_the_calendar_lists_again(tmp_path: Path) -> None:
    timing = listwatch.Timing(idle_s=5, relist_s=0, first_wait_s=0.01)
    with stub.StubApi(page("a"), stub.lines(change("ADDED", "b", 2), then="hang"), page("a", "b", revision=2)) as api:
        assert told(follow(tmp_path, api, timing).batches(), 3) == ["list a @1", "+b @2", "list a,b @2"]


def test_stop_ends_a_blocked_watch_and_leaves_no_thread(tmp_path: Path) -> None:
    with stub.StubApi(page("a"), stub.lines(then="hang")) as api:
        reflector = follow(tmp_path, api, listwatch.Timing(idle_s=60))
        reader = threading.Thread(target=lambda: list(reflector.batches()))
        reader.start()
        assert api.hanging.wait(5)
        reflector.stop()
        reader.join(5)
        assert not reader.is_alive()
    assert list(reflector.batches()) == []


def test_a_stop_between_opening_and_reading_is_not_lost(tmp_path: Path) -> None:
    """The stream is closed although `stop()` came before the reflector knew of it."""
    closed = threading.Event()

    class Stream:
        def __iter__(self) -> Iterator[objects.WatchEvent]:
            raise AssertionError("must not be read")

        def close(self) -> None:
            closed.set()

    class Api(ports.Api):
        def send(self, call: calls.KubeCall[Any], *, timeout_s: float | None = None) -> Any:
            return objects.Items[objects.Pod](metadata=objects.ListMetadata(resource_version="1"))

        def watch(self, call: calls.KubeCall[Any], *, idle_s: float) -> Any:
            reflector.stop()
            return Stream()

    reflector = listwatch.Reflector(Api(), calls.pods(), QUICK)
    assert len(list(reflector.batches())) == 1
    assert closed.is_set()


@given(st.integers(1, 200), st.floats(0, 0.999))
def test_back_off_grows_and_is_bounded(failures: int, spread: float) -> None:
    timing = listwatch.Timing()
    wait_s = listwatch.backoff(timing, failures, spread)
    assert timing.first_wait_s / 2 <= wait_s <= timing.longest_wait_s
    assert wait_s <= listwatch.backoff(timing, failures + 2, spread) or wait_s > timing.longest_wait_s / 2


def test_a_feed_joins_its_threads_and_merges_changes(tmp_path: Path) -> None:
    before = threading.active_count()
    watch = stub.lines(change("ADDED", "b", 2), change("ADDED", "c", 3), then="hang")
    with stub.StubApi(page("a"), watch) as api:
        got: list[feed.Part] = []
        with feed.Feed({"pods": follow(tmp_path, api)}) as source:
            while not got or _events(got) < 2:
                got += source.take(wait_s=5)
        alive = [thread for thread in threading.enumerate() if thread.name.startswith("feed-")]
    assert isinstance(got[0].batch, listwatch.Listed)
    assert got[-1].batch.revision == "3"  # type: ignore[union-attr]
    assert alive == []
    assert threading.active_count() <= before + 3  # the stub's own connections


def _events(parts: list[feed.Part]) -> int:
    return sum(len(part.batch.events) for part in parts if isinstance(part.batch, listwatch.Changed))


def test_an_idle_feed_returns_nothing() -> None:
    assert feed.Feed({}).take(wait_s=0) == []


class Broken(listwatch.Reflector[Any]):
    def __init__(self, batches: list[Any]) -> None:
        self._batches = batches

    def stop(self) -> None:
        """Nothing to stop."""

    def batches(self) -> Iterator[Any]:
        yield from self._batches
        raise ZeroDivisionError


class Dripping(listwatch.Reflector[Any]):
    """A change every 10 ms."""

    def __init__(self, changes: int) -> None:
        self._changes = changes

    def stop(self) -> None:
        """It ends by itself."""

    def batches(self) -> Iterator[Any]:
        for number in range(self._changes):
            yield listwatch.Changed((listwatch.Event(object(), deleted=False),), str(number))
            time.sleep(0.01)


@pytest.mark.parametrize("pace_s, takes", [(0.0, range(20, 31)), (0.15, range(2, 6))])
def test_what_comes_one_by_one_is_taken_together_at_a_pace(pace_s: float, takes: range) -> None:
    got: list[feed.Part] = []
    counted = 0
    with feed.Feed({"x": Dripping(30)}, pace_s=pace_s) as source:
        while _events(got) < 30:
            more = source.take(wait_s=5)
            counted += bool(more)
            got += more
    assert counted in takes


def test_a_fault_in_a_reflector_reaches_the_reader() -> None:
    with feed.Feed({"x": Broken([])}) as source, pytest.raises(ZeroDivisionError):
        source.take(wait_s=5)


def test_closing_a_full_feed_does_not_hang() -> None:
    with feed.Feed({"x": Broken([listwatch.Listed((), "1")] * 50)}, depth=1):
        pass


def test_only_neighbouring_changes_of_one_source_merge() -> None:
    one = listwatch.Changed((listwatch.Event(objects.Pod()),), "1")
    two = listwatch.Changed((listwatch.Event(objects.Pod()),), "2")
    listed = listwatch.Listed((), "3")
    parts = [feed.Part("a", one), feed.Part("a", two), feed.Part("b", one), feed.Part("a", listed), feed.Part("a", one)]
    short = [(part.source, _events([part]), part.batch.revision) for part in feed.merged(parts)]  # type: ignore[union-attr]
    assert short == [("a", 2, "2"), ("b", 1, "1"), ("a", 0, "3"), ("a", 1, "1")]


def test_a_list_is_what_is_kept_of_each_object_and_events_are_objects(tmp_path: Path) -> None:
    watch = stub.lines({"type": "ADDED", "object": {"metadata": {"name": "b", "resourceVersion": "2"}}}, then="hang")
    with stub.StubApi(page("a", token="more"), page("c"), watch) as api:
        kube = stub.connect(tmp_path, api.url)
        reflector = listwatch.Reflector(kube, calls.pods(), QUICK, keep=lambda pod: pod.metadata.name.upper())
        listed, changed = islice(reflector.batches(), 2)
    assert isinstance(listed, listwatch.Listed)
    assert list[object](listed.items) == ["A", "C"]
    assert isinstance(changed, listwatch.Changed)
    assert [event.object.metadata.name for event in changed.events] == ["b"]


def test_whole_objects_keep_every_field(tmp_path: Path) -> None:
    whole = {"metadata": {"name": "b", "resourceVersion": "2"}, "spec": {"volumes": [1]}}
    watch = stub.lines({"type": "ADDED", "object": whole}, then="hang")
    with stub.StubApi(page("a"), watch) as api:
        reflector = listwatch.Reflector(stub.connect(tmp_path, api.url), calls.pods().whole(), QUICK)
        batches = list(islice(reflector.batches(), 2))
    assert batches[1] == listwatch.Changed((listwatch.Event(whole),), "2")
