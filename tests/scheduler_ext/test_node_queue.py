"""Binds to one node take turns; binds to different nodes do not wait for each other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from scheduler_ext import node_queue


class Step:
    """Work that says when it began and ends when told."""

    def __init__(self, answer: str = "") -> None:
        self.began, self.end, self.answer = threading.Event(), threading.Event(), answer

    def __call__(self) -> str:
        self.began.set()
        assert self.end.wait(5)
        return self.answer


def until(queue: node_queue.NodeQueue[str], waiting: int) -> None:
    poll = threading.Event()
    while queue.waiting != waiting:
        poll.wait(0.001)


def test_binds_to_one_node_run_in_the_order_of_arrival() -> None:
    queue: node_queue.NodeQueue[str] = node_queue.NodeQueue(slots=10)
    order: list[str] = []
    first = Step()
    with ThreadPoolExecutor() as pool:
        pool.submit(queue.run, "n1", "u0", first, patience_s=5)
        assert first.began.wait(5)
        rest = []
        for name in ("a", "b", "c"):
            rest.append(pool.submit(queue.run, "n1", name, lambda name=name: order.append(name) or name, patience_s=5))
            until(queue, 1 + len(rest))
        assert order == []
        first.end.set()
        assert [future.result() for future in rest] == ["a", "b", "c"]
    assert order == ["a", "b", "c"]
    assert queue.waiting == 0


def test_binds_to_other_nodes_do_not_wait() -> None:
    queue: node_queue.NodeQueue[str] = node_queue.NodeQueue(slots=10)
    first = Step("x")
    with ThreadPoolExecutor() as pool:
        held = pool.submit(queue.run, "n1", "u0", first, patience_s=5)
        assert first.began.wait(5)
        assert queue.run("n2", "u1", lambda: "done", patience_s=5) == "done"
        first.end.set()
        assert held.result() == "x"


def test_a_repeat_of_the_same_pod_gets_the_running_binds_answer() -> None:
    queue: node_queue.NodeQueue[str] = node_queue.NodeQueue(slots=10)
    first = Step("bound once")
    with ThreadPoolExecutor() as pool:
        held = pool.submit(queue.run, "n1", "u0", first, patience_s=5)
        assert first.began.wait(5)
        again = pool.submit(queue.run, "n1", "u0", lambda: "bound twice", patience_s=5)
        first.end.set()
        assert held.result() == "bound once"
        assert again.result() in {"bound once", "bound twice"}  # twice only if it came after the first ended


def test_who_waits_too_long_is_told_and_leaves_the_line() -> None:
    queue: node_queue.NodeQueue[str] = node_queue.NodeQueue(slots=10)
    first = Step("x")
    with ThreadPoolExecutor() as pool:
        held = pool.submit(queue.run, "n1", "u0", first, patience_s=5)
        assert first.began.wait(5)
        with pytest.raises(node_queue.Busy, match=r"timed out after 0\.01s waiting for node n1 to be unlocked"):
            queue.run("n1", "u1", lambda: "y", patience_s=0.01)
        with pytest.raises(node_queue.Busy, match="timed out"):
            queue.run("n1", "u0", lambda: "y", patience_s=0.01)
        first.end.set()
        assert held.result() == "x"
    assert queue.run("n1", "u1", lambda: "y", patience_s=5) == "y"


def test_beyond_its_slots_it_refuses_at_once() -> None:
    queue: node_queue.NodeQueue[str] = node_queue.NodeQueue(slots=1)
    first = Step("x")
    with ThreadPoolExecutor() as pool:
        held = pool.submit(queue.run, "n1", "u0", first, patience_s=5)
        assert first.began.wait(5)
        with pytest.raises(node_queue.Busy, match="all bind slots are taken"):
            queue.run("n2", "u1", lambda: "y", patience_s=5)
        first.end.set()
        assert held.result() == "x"
    assert queue.run("n2", "u1", lambda: "y", patience_s=5) == "y"


def test_a_failed_bind_gives_up_its_turn() -> None:
    queue: node_queue.NodeQueue[str] = node_queue.NodeQueue(slots=1)

    def fails() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        queue.run("n1", "u0", fails, patience_s=5)
    assert queue.run("n1", "u0", lambda: "y", patience_s=5) == "y"
