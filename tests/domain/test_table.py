"""A table is a dictionary, whatever was put in and taken away, and an older one never changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain.table import BUCKETS, Table

keys = st.integers(-3, 3 * BUCKETS) | st.text(max_size=2)
steps = st.lists(st.dictionaries(keys, st.none() | st.integers(0, 3), max_size=6), max_size=8)


def contents(table: Table[int | str, int]) -> dict[int | str, int]:
    """Read in every way there is."""
    found = dict(table.items())
    assert list(table) == list(found)
    assert list(table.values()) == list(found.values())
    assert len(table) == len(found)
    assert {key: table[key] for key in table} == found
    assert {key: table.get(key, 9) for key in (*found, "none")} == found | {"none": found.get("none", 9)}
    assert all(key in table for key in found)
    assert "none of them" not in table
    return found


@given(steps)
def test_it_is_the_dictionary_with_the_same_changes(taken: list[dict[int | str, int | None]]) -> None:
    table: Table[int | str, int] = Table()
    expected: dict[int | str, int] = {}
    line = [(table, expected)]
    for changed in taken:
        table = table.replaced(changed)
        expected = {key: value for key, value in (expected | changed).items() if value is not None}
        line.append((table, expected))
        assert table == Table(expected)
    for older, was in line:
        assert contents(older) == was
        assert older == was


def test_nothing_changed_is_the_same_table() -> None:
    table = Table({"a": 1})
    assert table.replaced({}) is table


def test_a_change_shares_what_it_does_not_touch() -> None:
    table = Table({i: i for i in range(10 * BUCKETS)})
    after = table.replaced({5: 50})
    assert sum(a is not b for a, b in zip(table._buckets, after._buckets, strict=True)) == 1
