"""How containers reach the devices they were given: the strategies over this host's device nodes and specifications.

Must not know: which container, limits, gRPC.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Sequence

from deviceplugin import devnodes, inventory, runtime, specs
from hami_platform import logs

log = logs.get(__name__)


class UnreachableError(Exception):
    """A device cannot be named to the runtime; the message says why."""


class Reach:
    """specs: only where the strategies need them. cards: asked again for instances that were made a moment ago."""

    def __init__(
        self,
        handing: runtime.Handing | None = None,
        nodes: devnodes.DeviceNodes | None = None,
        specifications: specs.Specs | None = None,
        cards: inventory.Inventory | None = None,
        unique: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._handing = handing or runtime.Handing()
        self._nodes = nodes or devnodes.DeviceNodes()
        self._specs = specifications
        self._cards = cards
        self._unique = unique
        self._unwritten = ""

    def show(self, cards: Sequence[inventory.Card]) -> None:
        """Write specifications of these cards, where any are needed. While that fails nothing can be given."""
        if self._specs is None:
            return
        try:
            self._specs.write(cards)
        except specs.SpecError as error:
            self._unwritten = f"CDI specification: {error}"
            log.error("specification_not_written", error=str(error))
        else:
            self._unwritten = ""

    def to_cards(self, cards: Sequence[inventory.Card]) -> runtime.Access:
        """Access to whole cards, or shares of them. Raises UnreachableError."""
        return self._access([functools.partial(self._card, card) for card in cards])

    def to_instances(self, instances: Sequence[tuple[inventory.Card, inventory.MigInstance]]) -> runtime.Access:
        """Access to MIG instances, specified even if they are new. Raises UnreachableError."""
        if self._specs and self._cards:
            try:
                self.show(self._cards.scan())
            except inventory.InventoryError as error:
                raise UnreachableError(str(error)) from error
        return self._access([functools.partial(self._instance, *one) for one in instances])

    def _access(self, named: Sequence[Callable[[], runtime.Named]]) -> runtime.Access:
        if self._unwritten:
            raise UnreachableError(self._unwritten)
        try:
            common = self._nodes.common() if self._handing.needs_nodes else ()
            return runtime.access(self._handing, [look() for look in named], common, self._unique)
        except devnodes.UnknownNodeError as error:
            raise UnreachableError(str(error)) from error

    def _card(self, card: inventory.Card) -> runtime.Named:
        if self._handing.needs_nodes:
            return self._nodes.card(card)
        return runtime.Named(card.uuid, card.label)

    def _instance(self, card: inventory.Card, one: inventory.MigInstance) -> runtime.Named:
        if self._handing.needs_nodes:
            return self._nodes.partition(card, one)
        return runtime.Named(one.uuid)
