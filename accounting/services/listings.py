"""Lists of the API server, each object read once for as long as its text stays the same.

Ticks list everything again and again, and of thousands of nodes hardly one has changed: taking its registration apart
costs a hundred times what comparing its text does. What is kept follows from the text alone, so nothing is believed
that the list does not show. Must not know what an object means.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from hami_platform.kube import api as ports
from hami_platform.kube import calls, objects

S = TypeVar("S")
PAGE = 500


class Listings(Generic[S]):
    """What `read` makes of each object of one collection; of the last list, and no older one. `under`: what else it
    goes by, such as a configuration; with another one everything is read anew."""

    def __init__(self, read: Callable[[Mapping[str, Any], Any], S]) -> None:
        self._read = read
        self._under: tuple[object, ...] = ()
        self._known: dict[bytes, S] = {}

    def of(self, api: ports.Api, listing: calls.Listing[Any], *under: Any) -> list[S]:
        """Everything in one consistent list, page by page; `read` gets the object and the first of `under`. Raises kube
        errors."""
        known = self._known if self._same(under) else {}
        kept: dict[bytes, S] = {}
        found, token, more = [], "", True
        while more:
            page = api.send(listing.raw().page(limit=PAGE, token=token))
            for raw in page.items:
                text = hashlib.blake2b(raw, digest_size=16).digest()
                if text not in kept:
                    kept[text] = known[text] if text in known else self._read(objects.read(raw), under[0])
                found.append(kept[text])
            token = page.metadata.continue_
            more = bool(token)
        self._under, self._known = under, kept
        return found

    def _same(self, under: tuple[Any, ...]) -> bool:
        return len(under) == len(self._under) and all(a is b for a, b in zip(under, self._under, strict=True))
