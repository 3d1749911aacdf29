"""Pure parts of the API server: quantities, patches, selectors, CEL, protobuf, the walk through a pod's containers."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import units
from hami_platform.simulator.api import cel, cel_values, errors, patches, protobuf, quantity, selectors
from hami_platform.simulator.node import lifecycle

# --- quantities ---------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(0, 10**12).map(str), st.decimals(0, 10**6, places=3).map(lambda found: format(found, "f"))
)
SUFFIXES = st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti"])
QUANTITIES = st.builds(lambda number, suffix: f"{number}{suffix}", NUMBERS, SUFFIXES)


@given(QUANTITIES)
def test_the_canonical_form_is_the_same_amount_and_stays_as_it_is(text: str) -> None:
    canonical = quantity.canonical(text)
    assert quantity.value(canonical) == quantity.value(text)
    assert quantity.canonical(canonical) == canonical


@given(QUANTITIES)
def test_the_platform_reads_the_canonical_form_as_the_same_whole_number(text: str) -> None:
    assert units.whole(quantity.canonical(text)) == units.whole(text) == quantity.whole(text)


@pytest.mark.parametrize("text", ["", "x", "1x", "1 Gi", "--1", "1KB", "Gi"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(quantity.InvalidQuantity):
        quantity.canonical(text)


def test_amounts_below_a_nano_are_rounded_up() -> None:
    assert quantity.value("0.0000000001") == Fraction(1, 10**9)


# --- patches ------------------------------------------------------------------------------------------------

KEYS = st.sampled_from("abcd")
JSON = st.recursive(
    st.one_of(st.booleans(), st.integers(-9, 9), st.text("xyz", max_size=2)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
MAPS = st.dictionaries(KEYS, JSON, max_size=4)


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The merge patch from one map to another (RFC 7396, section 1)."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            patch[key] = difference(before, value)
        elif key not in old or before != value:
            patch[key] = value
    return patch


@given(MAPS, MAPS)
def test_a_merge_patch_leads_from_one_object_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = copy.deepcopy(old)
    assert patches.merge(old, difference(old, new)) == new
    assert old == before


@given(MAPS, MAPS)
def test_without_lists_strategic_and_merge_are_the_same(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert patches.strategic(old, difference(old, new)) == patches.merge(old, difference(old, new))


@given(MAPS, MAPS)
def test_a_json_patch_of_replaced_keys_leads_there_too(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = copy.deepcopy(old)
    operations = [{"op": "remove", "path": f"/{key}"} for key in old]
    operations += [{"op": "add", "path": f"/{key}", "value": value} for key, value in new.items()]
    assert patches.json_patch(old, operations) == new
    assert old == before


@pytest.mark.parametrize(
    "operation, result",
    [
        ({"op": "add", "path": "/l/1", "value": 9}, {"l": [1, 9, 2], "m": {"a/b": 1}}),
        ({"op": "add", "path": "/l/-", "value": 9}, {"l": [1, 2, 9], "m": {"a/b": 1}}),
        ({"op": "remove", "path": "/l/0"}, {"l": [2], "m": {"a/b": 1}}),
        ({"op": "replace", "path": "/m/a~1b", "value": 9}, {"l": [1, 2], "m": {"a/b": 9}}),
        ({"op": "move", "from": "/m/a~1b", "path": "/n"}, {"l": [1, 2], "m": {}, "n": 1}),
        ({"op": "copy", "from": "/l/0", "path": "/n"}, {"l": [1, 2], "m": {"a/b": 1}, "n": 1}),
        ({"op": "test", "path": "/l/0", "value": 1}, {"l": [1, 2], "m": {"a/b": 1}}),
    ],
)
def test_json_patch_operations(operation: dict[str, Any], result: dict[str, Any]) -> None:
    assert patches.json_patch({"l": [1, 2], "m": {"a/b": 1}}, [operation]) == result


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/x", "value": 1},
        {"op": "remove", "path": "/x"},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "/l/7", "value": 1},
        {"op": "test", "path": "/l", "value": []},
        {"op": "other", "path": "/l"},
        {"op": "add"},
    ],
)
def test_a_json_patch_that_does_not_apply_is_an_error(operation: dict[str, Any]) -> None:
    with pytest.raises(errors.ApiError):
        patches.json_patch({"l": [1]}, [operation])


def test_strategic_lists_merge_by_key_and_obey_directives() -> None:
    old = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}], "finalizers": ["x", "y"]}
    patch = {
        "$setElementOrder/containers": [{"name": "a"}],
        "containers": [{"name": "a", "image": "2"}, {"$patch": "delete", "name": "b"}, {"name": "c"}],
        "$deleteFromPrimitiveList/finalizers": ["x"],
        "finalizers": ["z"],
    }
    assert patches.strategic(old, patch) == {
        "containers": [{"name": "a", "image": "2"}, {"name": "c"}],
        "finalizers": ["y", "z"],
    }


# --- selectors, CEL, protobuf -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, labels, holds",
    [
        ("a=1,b!=2", {"a": "1"}, True),
        ("a==1", {"a": "2"}, False),
        ("a in (1, 2)", {"a": "2"}, True),
        ("a notin (1,2)", {}, True),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
    ],
)
def test_label_selectors(text: str, labels: dict[str, str], holds: bool) -> None:
    assert selectors.matches(selectors.labels(text), labels) is holds


@pytest.mark.parametrize("text", ["a=1,", ",", "a in", "a b"])
def test_a_label_selector_that_cannot_be_read_is_400(text: str) -> None:
    with pytest.raises(errors.ApiError) as caught:
        selectors.labels(text)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    "expression, value",
    [
        ("1 + 2 * 3 == 7 && !false", True),
        ("object.a.b.exists(x, x > 1)", True),
        ("object.a.b.all(x, x > 1)", False),
        ("object.a.b.filter(x, x > 1).size() == 1", True),
        ("object.a.b.map(x, x * 2) == [2, 4]", True),
        ("has(object.a.c) ? object.a.c : 'none'", "none"),
        ("object.?a.?c.orValue('d')", "d"),
        ("object.m['k/x'] == 'v' && 'k/x' in object.m", True),
        ("object.m.exists(k, k.startsWith('k/'))", True),
        # an error is absorbed when the other side decides
        ("object.missing == 1 || true", True),
        ("false && object.missing == 1", False),
        ("[1, 2].exists(x, x == 2 || object.missing == x)", True),
        ("1 == true", False),
        ("oldObject == null", True),
    ],
)
def test_cel(expression: str, value: Any) -> None:
    scope = {"object": {"a": {"b": [1, 2]}, "m": {"k/x": "v"}}, "oldObject": None, "request": {}}
    assert cel.compile_expression(expression)(scope) == value


@pytest.mark.parametrize(
    "expression", ["object.missing == 1", "object.a + 1 == 2", "1 && true", "object.b[7] == 1", "1 / 0 == 1"]
)
def test_cel_that_fails_when_it_runs(expression: str) -> None:
    with pytest.raises(cel_values.CelError):
        cel.compile_expression(expression)({"object": {"a": "x", "b": []}})


@pytest.mark.parametrize(
    "expression", ["", "a", "object.f(1)", "object.", "(1", "'x", "has(1)", "object.all(x)", "1 2"]
)
def test_cel_that_is_not_understood_is_refused_when_compiled(expression: str) -> None:
    with pytest.raises(cel_values.CelError):
        cel.compile_expression(expression)


def test_protobuf_of_a_kind_that_is_not_read_is_415() -> None:
    body = b"k8s\x00\x0a\x0e\x0a\x02v1\x12\x08Whatever"
    with pytest.raises(errors.ApiError) as caught:
        protobuf.decode(body)
    assert caught.value.code == 415


# --- containers ---------------------------------------------------------------------------------------------

SEQUENCES = st.lists(st.sampled_from(["init", "sidecar"]), max_size=4)


def run_of(kinds: list[str], apps: int = 1) -> lifecycle.PodRun:
    always = {"sidecar": {"restartPolicy": "Always"}, "init": {}}
    inits = [{"name": f"i{index}", **always[kind]} for index, kind in enumerate(kinds)]
    spec = {"initContainers": inits, "containers": [{"name": f"a{index}"} for index in range(apps)]}
    return lifecycle.PodRun({"metadata": {"uid": "u"}, "spec": {**spec, "restartPolicy": "Never"}}, "t", "ip")


@given(SEQUENCES, st.integers(1, 3))
def test_apps_start_only_after_every_init_has_ended_and_never_two_inits_run_at_once(
    kinds: list[str], apps: int
) -> None:
    run = run_of(kinds, apps)
    for _ in range(len(kinds) + 1):
        run.proceed("t")
        running = [item for item in run.inits if item.kind == "init" and item.state == "running"]
        assert len(running) <= 1
        if running:
            assert all(item.state == "waiting" for item in run.apps)
            assert run.phase == "Pending"
            run.ended(running[0].name, 0, "t")
    assert run.phase == "Running"
    assert all(item.state == "running" for item in (*run.apps, *(one for one in run.inits if one.kind == "sidecar")))
    for item in run.apps:
        run.ended(item.name, 0, "t")
    assert run.over
    assert run.phase == "Succeeded"
