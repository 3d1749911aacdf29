"""The background writer loses nothing while it keeps up, and never makes anybody wait when it does not."""

from __future__ import annotations

import threading

from scheduler_ext import background


def test_all_that_is_put_is_written_in_order() -> None:
    written: list[int] = []
    batcher: background.Batcher[int] = background.Batcher("t", written.extend, depth=1000, batch=7, linger_s=0)
    assert all(batcher.put(n) for n in range(100))
    assert batcher.flush(5)
    assert written == list(range(100))
    batcher.close(5)


def test_items_that_come_together_are_written_together() -> None:
    batches: list[list[int]] = []
    batcher: background.Batcher[int] = background.Batcher("t", batches.append, depth=1000, linger_s=5)
    for n in range(200):
        batcher.put(n)
    batcher.close(5)
    assert len(batches) <= 2


def test_a_full_queue_drops_and_counts_without_waiting() -> None:
    inside, release = threading.Event(), threading.Event()

    def slow(_: list[int]) -> None:
        inside.set()
        release.wait(5)

    batcher: background.Batcher[int] = background.Batcher("t", slow, depth=2, linger_s=0)
    batcher.put(0)
    assert inside.wait(5)
    assert [batcher.put(n) for n in range(4)] == [True, True, False, False]
    assert (batcher.depth, batcher.dropped) == (2, 2)
    assert not batcher.flush(0.01)
    release.set()
    batcher.close(5)
    assert not batcher.put(9)


def test_a_writer_that_fails_loses_its_batch_and_nothing_else() -> None:
    written: list[int] = []

    def write(batch: list[int]) -> None:
        if 0 in batch:
            raise ZeroDivisionError
        written.extend(batch)

    batcher: background.Batcher[int] = background.Batcher("t", write, depth=10, batch=1, linger_s=0)
    batcher.put(0)
    batcher.put(1)
    assert batcher.flush(5)
    assert written == [1]
    batcher.close(5)


def test_closing_an_unused_writer_has_nothing_to_end() -> None:
    background.Batcher("t", lambda _: None, depth=1).close(0)
