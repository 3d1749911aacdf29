"""Runs vectors and says of each whether it passed, failed, was skipped, or is not decided.

A result must be HAMi's, or one that HAMi was seen to give. Where a vector is marked with a fault, or we differ
knowingly, it must be the answer that was decided, and no other (`decisions`). A marked vector for which nothing was
decided passes with HAMi's answer or the corrected one; another answer is `undecided`: neither passed nor failed.
"""

from __future__ import annotations

import copy
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from hami_platform.domain.errors import ConfigError
from hami_platform.domain.vendors import registry
from hami_platform.domain.vendors.base import DeviceConfig
from scheduler_ext.conformance import compare, database, decisions, steps, vectors, vendors
from scheduler_ext.conformance import world as worlds

Json = dict[str, Any]
Verdict = Literal["passed", "failed", "skipped", "undecided"]
HANDSHAKE = "hami.io/node-handshake"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a vector. why: one line where it did not pass. rule: the decided rule it passed by, if any."""

    id: str
    verdict: Verdict
    why: str = ""
    rule: str = ""
    got: Sequence[Any] = field(default=(), repr=False)


class Runner:
    """Runs vectors one after another, each on an empty database. One for a process at a time."""

    def __init__(self, base: database.Database, folder: pathlib.Path, decided: decisions.Decisions) -> None:
        self._base, self._folder, self._decided = base, folder, decided

    def run(self, vector: vectors.Vector) -> Outcome:
        """Carry out a vector's steps and judge the results."""
        try:
            config = registry.device_config(vector.devices)
        except ConfigError as error:
            return Outcome(vector.id, "skipped", f"its device configuration is refused: {error}")
        lacking = vendors.missing(vector, config)
        if lacking:
            return Outcome(vector.id, "skipped", f"vendor {lacking} is not configured")
        self._base.renew()
        with worlds.made(vector, self._folder, datetime.now(UTC)) as world:
            got = [steps.carry_out(world, step) for step in vector.steps]
        return judge(vector, got, self._decided, config)


@contextmanager
def running(decided: decisions.Decisions) -> Iterator[Runner]:
    """A runner with a database of its own, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as name, database.throw_away() as base:
        yield Runner(base, pathlib.Path(name), decided)


def judge(vector: vectors.Vector, got: Sequence[Any], decided: decisions.Decisions, config: DeviceConfig) -> Outcome:
    """Compare what was got with what may be."""
    recorded = [configured(one, vector, config) for one in (vector.expected, *vector.alternatives)]
    answer = decided.vectors.get(vector.id)
    if answer is not None:
        wanted = [answer.steps.get(index, one) for index, one in enumerate(recorded[0])]
        return _outcome(vector, [(compare.steps(wanted, got), "")], got, "failed")
    if vector.fault and vector.corrected is not None:
        recorded.append(configured(vector.corrected, vector, config))
    found = [decided.excused(vector.steps, got, compare.steps(one, got)) for one in recorded]
    return _outcome(vector, found, got, "undecided" if vector.fault else "failed")


def _outcome(
    vector: vectors.Vector,
    found: Sequence[tuple[Sequence[compare.Difference], str]],
    got: Sequence[Any],
    otherwise: Verdict,
) -> Outcome:
    for differences, rule in sorted(found, key=lambda one: one[1]):
        if not differences:
            return Outcome(vector.id, "passed", rule=rule, got=got)
    nearest = min((differences for differences, _ in found), key=len)
    more = f" (and {len(nearest) - 1} more)" if len(nearest) > 1 else ""
    marked = f" [{vector.fault}]" if vector.fault else ""
    return Outcome(vector.id, otherwise, f"{vector.title}{marked}: {nearest[0].text()}{more}", got=got)


def configured(results: Sequence[Any], vector: vectors.Vector, config: DeviceConfig) -> list[Any]:
    """Recorded results without what HAMi writes on every node and container for vendors that are not there.

    It asks each node for the handshake of every vendor (K14); we ask those whose plugin registers.
    """
    asked = vendors.handshakes(vector, config)
    words = [vendor.word for vendor in config.vendors]
    absent = [name for name, word in vendors.ENVIRONMENT.items() if not any(w.startswith(word) for w in words)]
    return [_without(one, asked, tuple(f"{name}=" for name in absent)) for one in results]


def _without(value: Any, handshakes: set[str], variables: tuple[str, ...]) -> Any:
    if isinstance(value, Mapping):
        found = {}
        for key, member in value.items():
            if key.startswith(HANDSHAKE) and key not in handshakes:
                continue
            kept = _without(member, handshakes, variables)
            if kept or not member:  # what is empty only now is left out altogether
                found[key] = kept
        return found
    if isinstance(value, list):
        kept = [one for one in value if not (variables and isinstance(one, str) and one.startswith(variables))]
        return [_without(one, handshakes, variables) for one in kept]
    return value


def answer_of(vector: vectors.Vector, outcome: Outcome) -> Json:
    """An entry for the file of decided answers, without its reason: the steps that differ, times as placeholders."""
    config = registry.device_config(vector.devices)
    expected = configured(vector.expected, vector, config)
    differing = {
        str(index): _with_forms(copy.deepcopy(got))
        for index, (one, got) in enumerate(zip(expected, outcome.got, strict=True))
        if compare.steps([one], [got])
    }
    return {"fault": vector.fault, "why": "", "steps": differing}


def _with_forms(value: Any) -> Any:
    """The same result with the times in it replaced by their placeholders."""
    if isinstance(value, Mapping):
        return {key: _with_forms(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_with_forms(member) for member in value]
    return compare.with_forms(value) if isinstance(value, str) else value
