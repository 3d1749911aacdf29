"""A list is read as if each object were taken apart anew; objects whose text is the same are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from accounting.services import node_seen
from accounting.services.listings import PAGE, Listings
from hami_platform.kube import calls, objects
from tests.accounting import kube_objects


class Api:
    """Has these objects, and gives them out page by page."""

    def __init__(self, items: list[dict[str, Any]]) -> None:
        self.items = items

    def send(self, call: Any, *, timeout_s: float | None = None) -> Any:
        query = dict(call.query)
        start = int(query.get("continue", 0))
        end = start + int(query["limit"])
        page = {
            "metadata": {"continue": str(end) if end < len(self.items) else ""},
            "items": self.items[start:end],
        }
        return objects.decode(msgspec.json.encode(page), call.answer)

    def watch(self, call: Any, *, idle_s: float) -> Any:
        raise NotImplementedError("a list watches nothing")


NODES = st.lists(
    st.builds(lambda name, x: {"metadata": {"name": name}, "x": x}, st.sampled_from("abc"), st.integers(0, 2)),
    max_size=5,
)


@given(st.lists(st.tuples(NODES, st.sampled_from(["one", "two"])), max_size=6))
def test_every_list_is_what_reading_all_of_it_gives(lists: list[tuple[list[dict[str, Any]], str]]) -> None:
    known = Listings(lambda node, under: (under, node["metadata"]["name"], node["x"]))
    for items, under in lists:
        expected = [(under, one["metadata"]["name"], one["x"]) for one in items]
        assert known.of(Api(items), calls.nodes(), under) == expected


def test_an_object_is_read_once_as_long_as_its_text_is_the_same() -> None:
    read: list[str] = []

    def note(node: Mapping[str, Any], _under: object) -> str:
        read.append(node["metadata"]["name"])
        return read[-1]

    known = Listings(note)
    many = [{"metadata": {"name": f"n{number}"}} for number in range(PAGE + 2)]
    assert len(known.of(Api(many), calls.nodes(), None)) == PAGE + 2
    known.of(Api(many), calls.nodes(), None)
    assert len(read) == PAGE + 2
    many[PAGE] = {"metadata": {"name": "changed"}}
    assert known.of(Api(many), calls.nodes(), None)[PAGE] == "changed"
    assert len(read) == PAGE + 3


def test_a_nodes_fingerprint_is_the_same_whether_asked_for_before_or_not() -> None:
    config = kube_objects.CONFIG
    one, other = (node_seen.from_object(kube_objects.node(), config) for _ in range(2))
    first = [one.fingerprint(()), one.fingerprint(("NVIDIA",)), one.fingerprint(())]
    assert first == [other.fingerprint(()), other.fingerprint(["NVIDIA"]), first[0]]
    assert first[0] != first[1]
    assert one == other


def test_a_changed_node_has_a_fingerprint_of_its_own() -> None:
    one = node_seen.from_object(kube_objects.node(), kube_objects.CONFIG)
    before = one.fingerprint(())
    assert replace(one, unschedulable=True).fingerprint(()) != before
