"""From consumed rows to what their containers get; the node's side effects of it happen here.

Must not know: kubelet, the API server, or how consumption is remembered.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from deviceplugin import board, grants, handover, hostpaths, inventory, reach, runtime
from deviceplugin.refusals import Reason, Refusal
from deviceplugin.rows import Row, named
from hami_platform.domain import devices, errors
from hami_platform.domain.wire import mig_allocations

MIG_ALLOCATIONS = "hami.io/vgpu-mig-allocations"


class Unfit(Exception):
    """A row cannot be realised on this node; `reason` and the message say why."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclasses.dataclass(frozen=True, slots=True)
class Outfit:
    """Grants in row order, and the MIG instances they use."""

    grants: tuple[grants.Grant, ...]
    instances: handover.Instances


class Outfitter:
    """Makes grants. check_library: refuse when the limiting library is not on the host; without one, no locks.

    limits_refuse: says why no container may start with limits now; empty when it may.
    """

    def __init__(
        self,
        shown: board.Board,
        cards: inventory.Inventory,
        enforcement: grants.Enforcement,
        *,
        check_library: bool,
        limits_refuse: Callable[[], str] = str,
        reached: reach.Reach | None = None,
        unique: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._shown = shown
        self._cards = cards
        self._enforcement = enforcement
        self._check_library = check_library
        self._limits_refuse = limits_refuse
        self._reach = reached or reach.Reach()
        self._unique = unique

    def outfit(self, rows: Sequence[Row]) -> Outfit | Refusal:
        """Everything the rows' containers need, made ready on the host; or nothing of it."""
        instances: dict[tuple[int, int], tuple[devices.MigUse, inventory.MigInstance]] = {}
        try:
            made = tuple(self._grant(row, instances) for row in rows)
        except Unfit as error:
            self.undo(instances, rows)
            pod = rows[0].pod
            return Refusal(error.reason, f"pod {named(pod)}: {error}", pod)
        return Outfit(made, instances)

    def undo(self, instances: handover.Instances, rows: Sequence[Row]) -> None:
        """Give back what `outfit` made for rows that were not committed."""
        for (index, number), (use, _) in reversed(list(instances.items())):
            card = next(row for row in rows if row.index == index).devices[number].uuid
            try:
                self._cards.dissolve(card, use)
            except inventory.InventoryError:
                continue  # in use after all; the next call at this placement finds it and uses it again

    def _grant(
        self, row: Row, instances: dict[tuple[int, int], tuple[devices.MigUse, inventory.MigInstance]]
    ) -> grants.Grant:
        cards = [self._card(device.uuid) for device in row.devices]
        modes = {card.mode == inventory.MIG for card in cards}
        if modes == {True}:
            for number, use in enumerate(_reservations(row)):
                instances[row.index, number] = (use, self._realise(row.devices[number].uuid, use))
            made = [(card, instances[row.index, number][1]) for number, card in enumerate(cards)]
            return grants.Grant().reaching(self._access(lambda: self._reach.to_instances(made)))
        if modes == {False}:
            return self._share(row, cards)
        raise Unfit(Reason.MIG, f"container {row.container.name} is given both MIG and shared cards")

    def _share(self, row: Row, cards: Sequence[inventory.Card]) -> grants.Grant:
        reserved = [
            dataclasses.replace(device, index=card.index) for device, card in zip(row.devices, cards, strict=True)
        ]
        target = grants.Target(
            row.pod.metadata.uid, row.container.name, {entry.name: entry.value for entry in row.container.env}
        )
        extras = hostpaths.present(Path(self._enforcement.root))
        enforcement = dataclasses.replace(self._enforcement, extras=extras)
        grant = grants.shared(reserved, target, enforcement, cache=self._unique())
        try:
            if why := self._limits_refuse():
                raise hostpaths.HostPathError(why)
            if self._check_library:
                hostpaths.check_library(grant)
            hostpaths.prepare(grant, shared=self._check_library)
        except hostpaths.HostPathError as error:
            raise Unfit(Reason.HOST, str(error)) from error
        in_order = sorted(cards, key=lambda card: card.index)
        return grant.reaching(self._access(lambda: self._reach.to_cards(in_order)))

    def _access(self, find: Callable[[], runtime.Access]) -> runtime.Access:
        try:
            return find()
        except reach.UnreachableError as error:
            raise Unfit(Reason.HOST, str(error)) from error

    def _card(self, uuid_: str) -> inventory.Card:
        card = self._shown.picture.card(uuid_)
        if card is None:
            raise Unfit(Reason.UNKNOWN_DEVICE, f"card {uuid_} was reserved, but this node has no such card")
        return card

    def _realise(self, card: str, use: devices.MigUse) -> inventory.MigInstance:
        try:
            return self._cards.realise(card, use)
        except inventory.InventoryError as error:
            raise Unfit(Reason.MIG, str(error)) from error


def _reservations(row: Row) -> list[devices.MigUse]:
    """The placements reserved for this container, one for each device of its row, in that order."""
    text = row.pod.metadata.annotations.get(MIG_ALLOCATIONS, "")
    try:
        all_ = mig_allocations.decode(text)
    except errors.WireError as error:
        raise Unfit(Reason.UNDECODABLE, f"{MIG_ALLOCATIONS}: {error}") from error
    mine = sorted((r for r in all_ if r.container_index == row.index), key=lambda r: r.device_index)
    if [r.gpu_uuid for r in mine] != [device.uuid for device in row.devices]:
        raise Unfit(
            Reason.MIG,
            f"container {row.container.name}: MIG reservations on {[r.gpu_uuid for r in mine]} "
            f"do not match its devices {[device.uuid for device in row.devices]}",
        )
    return [devices.MigUse(r.profile, r.placement) for r in mine]
