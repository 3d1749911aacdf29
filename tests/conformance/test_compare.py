"""What counts as the same result."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.conformance import compare


def same(expected: Any, got: Any) -> bool:
    return not compare.steps([expected], [got])


@pytest.mark.parametrize(
    "expected, got",
    [
        ({"a": {"hami.io/vgpu-time": "<unix>"}}, {"a": {"hami.io/vgpu-time": "1795986769"}}),
        ("<rfc3339-now>,default,p", "2026-11-29T21:22:12Z,default,p"),
        ("Requesting_<now>", "Requesting_2026-11-29 21:22:12"),
        ({"scores": {"n1": 1.23}}, {"scores": {"n1": 1.2333}}),
        ({"events": ["b", "a"]}, {"events": ["a", "b"]}),
        ({"events": ["Warning BindingFailed x"]}, {"events": ["Warning BindingFailed y"]}),
        ({"error": "boom"}, {"error": "the same in other words"}),
        ({"patch": "base64 of 272 bytes"}, {"patch": "base64 of 12 bytes"}),
        ({"patchPaths": ["add /status"]}, {}),
        ({"metadata": {}}, {}),
        ({"allowed": True, "code": 200}, {"allowed": True}),
    ],
)
def test_times_wordings_and_orders_do_not_matter(expected: Any, got: Any) -> None:
    assert same(expected, got)


@pytest.mark.parametrize(
    "expected, got",
    [
        ({"a": 1}, {}),
        ({}, {"a": 1}),
        ({"used": 1}, {"used": True}),
        ({"t": "<unix>"}, {"t": "soon"}),
        ({"scores": {"n1": 1.23}}, {"scores": {"n1": 1.25}}),
        ({"mem": 1.23}, {"mem": 1.2333}),
        ({"error": "boom"}, {"error": ""}),
        ({"error": "boom"}, {}),
        ({"message": "exceeding resource quota"}, {"message": "no"}),
        ({"allowed": False, "code": 403}, {"allowed": False, "code": 500}),
        ({"events": ["Warning FilteringFailed 1 nodes CardNotHealth(n1)"]}, {"events": ["Warning FilteringFailed x"]}),
        ({"failedNodes": {"n1": "1/1 CardNotHealth"}}, {"failedNodes": {"n1": "CardNotHealth"}}),
        ([1, 2], [2, 1]),
    ],
)
def test_everything_else_matters(expected: Any, got: Any) -> None:
    assert not same(expected, got)


def test_a_difference_says_where_and_what() -> None:
    (found,) = compare.steps(
        [{}, {"usage": {"n1": {"GPU-a": {"mem": 1}}}}], [{}, {"usage": {"n1": {"GPU-a": {"mem": 2}}}}]
    )
    assert found.text() == "step 1 usage.n1.GPU-a.mem: expected 1, got 2"
