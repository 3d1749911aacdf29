"""An immutable mapping of which a changed copy costs what changed, not what there is.

Entries lie in a fixed number of dictionaries by the hash of their key; a copy shares all but those that it changes.
Knows nothing of what it holds.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from itertools import chain
from typing import Any, Final, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

BUCKETS: Final = 128
_MASK: Final = BUCKETS - 1


class Table(Mapping[K, V]):
    """To be read only: `replaced` gives the next one."""

    __slots__ = ("_buckets", "_count")

    def __init__(self, entries: Mapping[K, V] | None = None) -> None:
        buckets: list[dict[K, V]] = [_NONE] * BUCKETS
        for key, value in (entries or {}).items():
            place = hash(key) & _MASK
            if buckets[place] is _NONE:
                buckets[place] = {}
            buckets[place][key] = value
        self._buckets = buckets
        self._count = len(entries or ())

    def replaced(self, changed: Mapping[K, V | None]) -> Table[K, V]:
        """This table with other values for some keys; None takes a key away."""
        if not changed:
            return self
        found: Table[K, V] = Table()
        found._buckets = buckets = list(self._buckets)
        count = self._count
        own: set[int] = set()
        for key, value in changed.items():
            place = hash(key) & _MASK
            if place not in own:
                own.add(place)
                buckets[place] = dict(buckets[place])
            bucket = buckets[place]
            count -= key in bucket
            if value is None:
                bucket.pop(key, None)
            else:
                bucket[key] = value
                count += 1
        found._count = count
        return found

    def __getitem__(self, key: K) -> V:
        return self._buckets[hash(key) & _MASK][key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | T) -> V | T: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        """The value of a key, or the default."""
        return self._buckets[hash(key) & _MASK].get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._buckets[hash(key) & _MASK]

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._buckets)

    def __len__(self) -> int:
        return self._count

    def values(self) -> ValuesView[V]:
        """All values, bucket by bucket."""
        return _Values(self)

    def items(self) -> ItemsView[K, V]:
        """All entries, bucket by bucket."""
        return _Items(self)

    def __repr__(self) -> str:
        return f"Table({dict(self)!r})"


class _Values(ValuesView[V]):
    """Without a look-up for each."""

    _mapping: Table[Any, V]

    def __iter__(self) -> Iterator[V]:
        if not self._mapping._count:
            return iter(())  # of holds and limits there are often none, and each decision asks
        return chain.from_iterable(bucket.values() for bucket in self._mapping._buckets if bucket)


class _Items(ItemsView[K, V]):
    """Without a look-up for each."""

    _mapping: Table[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        if not self._mapping._count:
            return iter(())
        return chain.from_iterable(bucket.items() for bucket in self._mapping._buckets if bucket)


_NONE: dict[Any, Any] = {}
"""What is in an empty bucket; never written to."""
