"""Who is blocked, who is held to its share. The table is HAMi v2.10.0's; the rounds are played with real files."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin import feedback, region, region_files
from deviceplugin.feedback import Member
from deviceplugin.region import Words
from deviceplugin.region_files import Owner
from tests.deviceplugin.builders import GPU_A, GPU_B
from tests.deviceplugin.process import ROOT
from tests.deviceplugin.regions import content, write

PERIOD_S = 5.0


def counts(**devices: Sequence[int]) -> dict[str, Counter[int]]:
    """`a=[0, 1]`: on device a nobody active of priority 0, one of priority 1."""
    return {uuid: Counter(dict(enumerate(numbers))) for uuid, numbers in devices.items()}


@pytest.mark.parametrize(
    "priority, uuids, active, blocked, contended",
    [
        (3, "a", counts(a=[0, 1]), True, True),
        (2, "a", counts(a=[0, 0]), False, False),
        (1, "ab", counts(a=[0, 0], b=[1, 0]), True, True),
        (1, "ab", counts(a=[0, 0], b=[0, 0]), False, False),
        (1, "a", counts(b=[1, 1]), False, False),
        (1, "ab", counts(a=[0, 1]), False, False),
        (1, "a", counts(), False, False),
        (1, "a", counts(a=[0, 2]), False, True),
        (1, "a", counts(a=[0, 1]), False, False),
        (-1, "a", counts(a=[1, 2]), False, False),
    ],
)
def test_blocking_and_contention(
    priority: int, uuids: str, active: dict[str, Counter[int]], blocked: bool, contended: bool
) -> None:
    assert feedback.blocked(priority, uuids, active) is blocked
    assert feedback.contended(priority, uuids, active) is contended


def decided(*members: Member, now_s: float = 1000.0) -> list[Words]:
    found = feedback.decide({str(n): member for n, member in enumerate(members)}, now_s, PERIOD_S)
    return [found[str(n)] for n in range(len(members))]


def member(priority: int = 1, recent: int = 0, switch: int = 0, last: int = 0, uuids: Sequence[str] = "a") -> Member:
    return Member(tuple(uuids), priority, Words(recent, switch), last)


def test_a_launch_counts_for_one_round() -> None:
    """2 becomes 1 and is active; 1 becomes 0 and is not."""
    low = member(priority=1)
    assert decided(member(priority=0, recent=2), low) == [Words(1, 0), Words(-1, 1)]
    assert decided(member(priority=0, recent=1), low) == [Words(0, 0), Words(0, 0)]


def test_the_blocked_one_goes_on_when_nobody_goes_first() -> None:
    assert decided(member(priority=1, recent=-1, switch=1)) == [Words(0, 0)]


def test_a_container_alone_is_not_held_to_its_share() -> None:
    assert decided(member(recent=2, switch=1)) == [Words(1, 0)]


def test_two_of_the_same_priority_are_held_to_their_shares() -> None:
    assert decided(member(recent=2), member(recent=2)) == [Words(1, 1), Words(1, 1)]


def test_others_on_another_device_change_nothing() -> None:
    assert decided(member(priority=0, recent=2, uuids="a"), member(priority=1, uuids="b")) == [Words(1, 0), Words(0, 0)]


@pytest.mark.parametrize("last, active", [(0, False), (989, False), (990, True), (1000, True), (1001, False)])
def test_a_launch_in_the_last_two_rounds_counts_by_its_time(last: int, active: bool) -> None:
    _, low = decided(member(priority=0, last=last), member(priority=1))
    assert low == (Words(-1, 1) if active else Words(0, 0))


def test_contention_is_seen_although_the_switch_is_off() -> None:
    """Libraries since March 2026 mark nothing but the time of a launch while the switch is off."""
    first, second = decided(member(last=999), member(last=998))
    assert (first.switch, second.switch) == (1, 1)


class Player:
    """A process that plays the library's part on a container's file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        command = [sys.executable, "-m", "tests.deviceplugin.regions", str(path)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, command: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        self.process.communicate()


class Node:
    """Containers of given priorities on one card, each with its own process, and rounds of feedback over the files."""

    def __init__(self, root: Path, stack: ExitStack, *priorities: int, uuids: Sequence[str] = (GPU_A,)) -> None:
        self.root = root
        self.owners = [Owner(f"uid-{n}", "main") for n in range(len(priorities))]
        self.players = []
        for owner, priority in zip(self.owners, priorities, strict=True):
            path = root / owner.directory / "a.cache"
            write(path, content(uuids=uuids, priority=priority, recent=0, switch=0))
            player = Player(path)
            stack.callback(player.close)
            self.players.append(player)

    def launch(self, number: int, now_s: int) -> str:
        return self.players[number].say(f"launch {now_s}")

    def round(self, now_s: float) -> None:
        found: dict[str, region.Region] = {}
        for owner in self.owners:
            with region_files.opened(self.root, owner, writable=False) as file:
                assert file is not None
                found[owner.uid] = region.read(file)
        members = {
            uid: Member(tuple(d.uuid for d in r.devices), r.priority, r.words, r.last_kernel_s)
            for uid, r in found.items()
        }
        words = feedback.decide(members, now_s, PERIOD_S)
        for owner in self.owners:
            with region_files.opened(self.root, owner, writable=True) as file:
                assert file is not None
                region.write_words(file, region.layout_of(file), found[owner.uid].words, words[owner.uid])


@contextmanager
def node(root: Path, *priorities: int) -> Iterator[Node]:
    with ExitStack() as stack:
        yield Node(root, stack, *priorities)


def test_a_high_priority_container_blocks_the_low_one_until_it_is_idle(tmp_path: Path) -> None:
    with node(tmp_path, 0, 1) as here:
        assert here.launch(0, 1000) == "free"
        here.round(1001)
        assert here.launch(1, 1001) == "blocked"
        for now_s in range(1002, 1060, 5):  # at work for a minute, its switch off all the time
            assert here.launch(0, now_s) == "free"
            here.round(now_s + 1)
            assert here.launch(1, now_s + 1) == "blocked"
        here.round(1070)
        assert here.launch(1, 1070) == "free"


def test_two_that_contend_are_held_until_one_is_idle_and_again_when_it_returns(tmp_path: Path) -> None:
    with node(tmp_path, 1, 1) as here:
        here.launch(0, 1000)
        here.launch(1, 1000)
        here.round(1001)
        assert (here.launch(0, 1001), here.launch(1, 1001)) == ("held", "held")
        here.round(1006)
        assert here.launch(0, 1010) == "held"
        here.round(1012)
        assert here.launch(0, 1014) == "free"  # the other has been idle for two rounds
        here.round(1017)
        here.launch(1, 1018)
        here.round(1022)
        assert (here.launch(0, 1022), here.launch(1, 1022)) == ("held", "held")


def test_a_second_card_decides_for_itself(tmp_path: Path) -> None:
    with ExitStack() as stack:
        here = Node(tmp_path / "a", stack, 0, uuids=[GPU_A])
        there = Node(tmp_path / "b", stack, 1, uuids=[GPU_B])
        here.launch(0, 1000)
        here.round(1001)
        there.round(1001)
        assert there.launch(0, 1001) == "free"


def by_the_book(members: Sequence[Member]) -> list[Words]:
    """HAMi's two passes word for word, over arrays, for libraries that mark every launch in recent_kernel alone."""
    recents = [m.words.recent - 1 if m.words.recent > 0 else m.words.recent for m in members]
    active: dict[str, list[int]] = {uuid: [0] * 10 for m in members for uuid in m.uuids}
    for m, recent in zip(members, recents, strict=True):
        for uuid in m.uuids:
            if recent > 0 and m.priority >= 0:
                active[uuid][m.priority] += 1
    decided = []
    for m, recent in zip(members, recents, strict=True):
        first = any(active[uuid][p] for uuid in m.uuids for p in range(max(0, m.priority)))
        crowd = any(m.priority >= 0 and active[uuid][m.priority] > 1 for uuid in m.uuids)
        now = -1 if first and recent >= 0 else 0 if not first and recent < 0 else recent
        decided.append(Words(now, int(first or crowd)))
    return decided


MEMBERS = st.builds(
    member,
    priority=st.integers(-2, 9),
    recent=st.integers(-3, 3),
    switch=st.integers(0, 1),
    last=st.just(0),
    uuids=st.lists(st.sampled_from("abc"), unique=True, max_size=3),
)


@given(st.lists(MEMBERS, max_size=6))
def test_without_times_of_launches_it_decides_as_hami(members: list[Member]) -> None:
    assert decided(*members) == by_the_book(members)


@given(st.lists(MEMBERS, max_size=6), st.integers(0, 9))
def test_who_goes_first_is_never_blocked(members: list[Member], launched: int) -> None:
    """Of those that launch on a card, none of the best priority there waits."""
    if not members:
        return
    members[launched % len(members)] = member(priority=0, recent=2, uuids="abc")
    for one, words in zip(members, decided(*members), strict=True):
        if one.priority <= 0:
            assert words.recent >= 0
