"""Explanations of every vendor's refusals, on the nodes and pods of the recorded vectors: each fix is held to law 10.

Vendors choose devices in ways of their own; what is offered must go through those, not around them.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from hami_platform.domain import admission, errors, explain, place, quota
from hami_platform.domain.devices import Device
from hami_platform.domain.rows import Changes, ClockRow, NodeRow
from hami_platform.domain.vendors import base, registry
from hami_platform.domain.view import View
from hami_platform.domain.what_if import Answer, Ask

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden" / "vendors"
FILES = sorted(GOLDEN.glob("vendor-*.json"))
CONFIG = registry.default_config()
SETTINGS = admission.AdmissionSettings(scheduler_name="")


def decide(view: View, ask: Ask, names: Sequence[str] | None) -> Answer:
    found = place.place(
        view.states, tuple(view.states) if names is None else names, ask.request,
        headroom=quota.UNLIMITED, strategies=CONFIG.strategies,
    )  # fmt: skip
    return Answer("enforce", None, False, found)


def scenes(file: pathlib.Path) -> Iterator[tuple[View, Ask]]:
    """The nodes of each vector, empty, and the first pod that is admitted."""
    for vector in json.loads(file.read_text())["vectors"]:
        rows = {row.name: row for row in map(node, vector["nodes"])}
        request = next((asked for step in vector["new"] if (asked := request_of(step)) is not None), None)
        if request is not None and rows:
            yield View().fold(Changes(ClockRow(1, "t", "i", "i"), nodes=dict(rows))), Ask("default", request)


def node(raw: dict[str, Any]) -> NodeRow:
    meta, capacity = raw["metadata"], raw.get("status", {}).get("capacity", {})
    whole = {name: int(text) for name, text in capacity.items() if str(text).isdigit()}
    source = base.NodeSource(meta["name"], meta.get("annotations") or {}, meta.get("labels") or {}, whole)
    devices: list[Device] = []
    for vendor in CONFIG.vendors:
        try:
            devices += vendor.registered(source)
        except errors.WireError:
            continue  # the vector is about a text that cannot be read
    return NodeRow(meta["name"], tuple(devices))


def request_of(step: dict[str, Any]) -> Any:
    if step.get("op") != "webhook":
        return None
    verdict = admission.review(step["pod"], config=CONFIG, settings=SETTINGS)
    return verdict.request if isinstance(verdict, admission.Mutated) else None


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_law_10_holds_for_every_vendor(file: pathlib.Path) -> None:
    for view, asked in scenes(file):
        found = explain.explain(view, asked, decide)
        assert (found.placement is not None) == (decide(view, asked, None).placement is not None)
        assert "%(" not in str(found.headline)
        for fix in found.fixes:
            changed, wanted = fix.draft.applied(view, asked)
            assert decide(changed, wanted, None).placement == fix.placement, fix.steps


def test_the_vectors_have_refusals_with_fixes_for_most_vendors() -> None:
    helped = {
        word
        for file in FILES
        for view, asked in scenes(file)
        if explain.explain(view, asked, decide).fixes
        for word in asked.request.vendors
    }
    assert len(helped) >= 8, helped
