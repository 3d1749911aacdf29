"""Placement, written plainly and slowly from the rules: every node is tried, every combination looked at.

Shares no code with the domain but its values. One deliberate likeness: sums of the score are formed in the same order,
as equal scores must be equal here too.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from hami_platform.domain.devices import ContainerKind, Device, MigUse
from hami_platform.domain.nodes import DeviceState, NodeState
from hami_platform.domain.quota import Headroom
from hami_platform.domain.requests import Constraints, ContainerRequest, DeviceRequest, PodRequest

Row = tuple[int, str, str, int, int, str]
"""(container index, vendor, uuid, MiB, core %, MIG instance as profile@start+size)."""


def place(
    nodes: Mapping[str, NodeState],
    candidates: Sequence[str],
    request: PodRequest,
    headroom: Headroom,
    node_policy: str,
    device_policy: str,
) -> tuple[str, list[Row]] | dict[str, str]:
    """The node and the rows, or the reason text of every node."""
    answers = {name: fit(nodes[name], request, headroom, device_policy) for name in candidates}
    good = [name for name in candidates if isinstance(answers[name], list)]
    if not good:
        return {name: str(text) for name, text in answers.items()}
    own = request.constraints.node_policy
    spread = (own if own in ("binpack", "spread") else node_policy) == "spread"
    best = sorted(good, key=lambda name: (node_score(nodes[name]) * (1 if spread else -1), name))[0]
    rows = answers[best]
    assert isinstance(rows, list)
    return best, rows


def node_score(node: NodeState) -> float:
    """Used fractions of slots, cores and memory over all devices, times 10."""
    states = node.devices
    slots, cores, memory = (
        sum(s.device.slots for s in states),
        sum(s.device.core_percent for s in states),
        sum(s.device.memory_mib for s in states),
    )
    if 0 in (slots, cores, memory):
        return 0.0
    used = sum(s.held.slots for s in states) / slots
    return 10 * (
        used + sum(s.held.core_percent for s in states) / cores + sum(s.held.memory_mib for s in states) / memory
    )


def fit(node: NodeState, request: PodRequest, headroom: Headroom, device_policy: str) -> list[Row] | str:
    """The rows of the pod on the node, or the reason text."""
    if node.blocked:
        return node.blocked.value
    state = {s.device.uuid: _working(s) for s in node.devices}
    pod = _Pod(node, request, headroom, device_policy)
    for index, c in enumerate(request.containers):
        work = copy.deepcopy(state) if c.kind is ContainerKind.INIT else state
        failed = pod.container(index, c, work)
        if failed is not None:
            return failed
    return pod.rows


def _working(s: DeviceState) -> dict[str, Any]:
    cut, holders = s.device.mode == "mig", s.held.slots or s.held.memory_mib or s.held.core_percent
    lost = (cut and holders and not s.held.mig) or (not cut and s.held.mig)
    return {
        "d": s.device,
        "n": s.held.slots,
        "m": s.held.memory_mib,
        "c": s.held.core_percent,
        "mig": list(s.held.mig),
        "bad": bool(lost),
    }


class _Pod:
    def __init__(self, node: NodeState, request: PodRequest, headroom: Headroom, device_policy: str) -> None:
        self.node, self.request, self.headroom = node, request, headroom
        self.want: Constraints = request.constraints
        known = {"binpack", "spread", "numa", "mutex", "topology-aware"}
        text = self.want.device_policy
        if text is None or not known & {w.strip() for w in text.split(",")}:
            text = device_policy
        self.text = text
        self.words = [w.strip() for w in text.split(",") if w.strip() in known]
        self.rows: list[Row] = []

    def held(self, rows: list[Row]) -> dict[str, tuple[int, int, int]]:
        """Peak (slots, MiB, core) per device when the pod has these rows, by walking its life."""
        life: dict[str, tuple[int, int, int]] = {}
        base: dict[str, list[int]] = {}
        for index, c in enumerate(self.request.containers):
            for uuid in {r[2] for r in rows if r[0] == index}:
                mine = [r for r in rows if r[0] == index and r[2] == uuid]
                before = base.get(uuid, [0, 0, 0])
                total = [
                    before[0] + len(mine), before[1] + sum(r[3] for r in mine), before[2] + sum(r[4] for r in mine)
                ]  # fmt: skip
                if c.kind is not ContainerKind.INIT:
                    base[uuid] = total
                was = life.get(uuid, (0, 0, 0))
                life[uuid] = (max(was[0], total[0]), max(was[1], total[1]), max(was[2], total[2]))
        return life

    def over_quota(self, rows: list[Row]) -> bool:
        if not self.headroom.enforced:
            return False
        held = self.held(rows)
        for rule, used in self.headroom.rules:
            sums = [0, 0, 0]
            biggest = 0
            for s in self.node.devices:
                d = s.device
                pattern = rule.selector.model_pattern.lower().strip("*")
                if d.uuid not in held or (rule.selector.vendor and rule.selector.vendor != d.vendor):
                    continue
                if pattern not in d.model.lower():
                    continue
                sums = [a + b for a, b in zip(sums, held[d.uuid], strict=True)]
                biggest = max([biggest, *(r[3] for r in rows if r[2] == d.uuid)])
            lim = rule.limits
            for total, have, most, most_pod in (
                (sums[0], used.devices, lim.devices, lim.pod_devices),
                (sums[1], used.memory_mib, lim.memory_mib, lim.pod_memory_mib),
                (sums[2], used.core_percent, lim.core_percent, lim.pod_core_percent),
            ):
                if total > 0 and most is not None and have + total > most:
                    return True
                if total > 0 and most_pod is not None and total > most_pod:
                    return True
            if lim.device_memory_mib is not None and biggest > lim.device_memory_mib:
                return True
        return False

    def slack(self, uuid: str) -> bool:
        """Another phase holds more of the device than what runs beside the next container."""
        running = [r for r in self.rows if self.request.containers[r[0]].kind is not ContainerKind.INIT]
        now = (
            sum(r[2] == uuid for r in running),
            sum(r[3] for r in running if r[2] == uuid),
            sum(r[4] for r in running if r[2] == uuid),
        )
        return uuid in self.held(self.rows) and self.held(self.rows)[uuid] != now

    def container(self, index: int, c: ContainerRequest, work: dict[str, Any]) -> str | None:
        for ask in c.devices:
            got = self.one(index, ask, work)
            if isinstance(got, str):
                return got
            for uuid, memory, core, use in got:
                w = work[uuid]
                w["n"] += 1
                w["m"] += memory
                w["c"] += core
                label = ""
                if use:
                    w["mig"].append(use)
                    label = f"{use.profile}@{use.placement.start}+{use.placement.size}"
                self.rows.append((index, ask.vendor, uuid, memory, core, label))
        return None

    def order(self, ask: DeviceRequest, mine: list[dict[str, Any]], *, prefer: bool) -> list[dict[str, Any]]:
        weights = self.want.weights

        def value(w: dict[str, Any]) -> float:
            d: Device = w["d"]
            if not (d.slots and d.core_percent and d.memory_mib):
                return 0.0
            asked = ask.memory_mib or d.memory_mib * (ask.memory_percent or 0) // 100
            return 10.0 * float(
                weights.slot * (w["n"] + 1) / d.slots
                + weights.core * (w["c"] + ask.core_percent) / d.core_percent
                + weights.memory * (w["m"] + asked) / d.memory_mib
            )

        def key(w: dict[str, Any]) -> tuple[Any, ...]:
            d: Device = w["d"]
            like = prefer and self.slack(d.uuid)
            end = (d.index, d.uuid)
            if "," in self.text or self.words == ["numa"]:
                chain = list(dict.fromkeys(w for w in self.words if w in ("binpack", "spread", "numa"))) or ["spread"]
                part = {"binpack": value(w), "spread": -value(w), "numa": d.numa}
                if self.want.numa_bind:
                    return (d.numa, like, *(part[x] for x in chain if x != "numa"), *end)
                return (like, *(part[x] for x in chain), *end)
            word = self.words[0] if self.words else "spread"
            if word == "mutex":
                return (-w["n"], d.numa, like, *end)
            if self.want.numa_bind:
                return (-d.numa, like, value(w), *end) if word == "binpack" else (d.numa, like, -value(w), *end)
            return (like, value(w) if word == "binpack" else -value(w), d.numa, *end)

        return sorted(mine, key=key)[::-1]

    def one(self, index: int, ask: DeviceRequest, work: dict[str, Any]) -> list[tuple[str, int, int, Any]] | str:
        mine = [w for w in work.values() if w["d"].vendor == ask.vendor]
        mode = self.want.vgpu_mode
        cut = any(w["d"].mode == "mig" for w in mine) and (mode is None or "mig" in mode)
        if ask.count > len(mine) and not cut:
            return "NodeInsufficientDevice"
        counts: dict[str, int] = {}
        groups: list[list[tuple[str, int, int, Any]]] = [[]]
        last = None
        topology = "topology-aware" in self.words
        if topology and (best := self.best_of_all(index, ask, work)) is not None:
            return best
        for w in self.order(ask, mine, prefer=True):
            d: Device = w["d"]
            bad = self.static(w)
            if bad:
                counts[bad] = counts.get(bad, 0) + 1
                continue
            if self.want.numa_bind and last is not None and last != d.numa:
                groups.append([])
            last = d.numa
            while True:
                got = self.device(index, ask, w, groups[-1])
                if isinstance(got, str):
                    counts[got] = counts.get(got, 0) + 1
                    break
                groups[-1].append(got)
                if d.mode != "mig" or (not topology and len(groups[-1]) == ask.count):
                    break
            if not topology and len(groups[-1]) == ask.count:
                return self.sorted(groups[-1], ask, mine)
        full = [g for g in groups if len(g) >= ask.count] if topology else []
        if full:
            return self.sorted(self.connected(full, ask.count), ask, mine)
        for g in groups[:-1]:
            counts["NumaNotFit"] = counts.get("NumaNotFit", 0) + len(g)
        counts["AllocatedCardsInsufficientRequest"] = len(groups[-1])
        return ", ".join(sorted(f"{n}/{len(mine)} {word}" for word, n in counts.items() if n))

    def best_of_all(
        self, index: int, ask: DeviceRequest, work: dict[str, Any]
    ) -> list[tuple[str, int, int, Any]] | None:
        """The choice without any quota, if the quota allows it: what is only looked at costs none."""
        if not self.headroom.enforced:
            return None
        twin = copy.copy(self)
        twin.headroom = Headroom(self.headroom.rules, enforced=False)
        best = twin.one(index, ask, work)
        if isinstance(best, str):
            return None
        rows = [(index, ask.vendor, u, m, c, "") for u, m, c, _ in best]
        return None if self.over_quota([*self.rows, *rows]) else best

    def sorted(
        self, got: list[tuple[str, int, int, Any]], ask: DeviceRequest, mine: list[dict[str, Any]]
    ) -> list[tuple[str, int, int, Any]]:
        """In the policy's own order, whatever was preferred."""
        place = {w["d"].uuid: i for i, w in enumerate(self.order(ask, mine, prefer=False))}
        return sorted(got, key=lambda g: place[g[0]])

    def connected(self, groups: list[list[tuple[str, int, int, Any]]], count: int) -> list[tuple[str, int, int, Any]]:
        """Every combination of every group; the first of the best."""
        pairs = self.node.pair_scores

        def pair(a: Any, b: Any) -> int:
            return 0 if a is b else pairs.get((a[0], b[0]), 0)

        def worth(group: list[Any], some: tuple[Any, ...]) -> int:
            if not pairs:
                return 0
            if count == 1:
                return -sum(pair(some[0], other) for other in group)
            return sum(pair(a, b) for a, b in itertools.combinations(some, 2))

        every = [(worth(g, some), some) for g in groups for some in itertools.combinations(g, count)]
        best = max(w for w, _ in every)
        return list(next(some for w, some in every if w == best))

    def static(self, w: dict[str, Any]) -> str:
        d, want = w["d"], self.want
        if not d.healthy or w["bad"]:
            return "CardNotHealth"
        if d.cordoned:
            return "CardCordoned"
        if want.vgpu_mode is not None and d.mode not in want.vgpu_mode:
            return "CardTypeMismatch"
        model = d.model.lower()
        if want.use_models is not None and not [m for m in want.use_models if m.lower() in model]:
            return "CardTypeMismatch"
        if want.nouse_models is not None and [m for m in want.nouse_models if m.lower() in model]:
            return "CardTypeMismatch"
        return ""

    def device(
        self, index: int, ask: DeviceRequest, w: dict[str, Any], taken: list[tuple[str, int, int, Any]]
    ) -> tuple[str, int, int, Any] | str:
        d, want = w["d"], self.want
        if want.use_uuids is not None and d.uuid not in want.use_uuids:
            return "CardUuidMismatch"
        if want.nouse_uuids is not None and d.uuid in want.nouse_uuids:
            return "CardUuidMismatch"
        if w["n"] >= d.slots:
            return "CardTimeSlicingExhausted"
        if "mutex" in self.words and w["n"] > 0:
            return "ExclusiveDeviceAllocateConflict"
        memory = ask.memory_mib or d.memory_mib * (ask.memory_percent or 0) // 100
        core = min(ask.core_percent, 100)
        offer: tuple[str, int, int, Any] | None = (d.uuid, memory, core, None)
        if d.mode == "mig":
            offer = self.instance(d, w, memory, [t for t in taken if t[0] == d.uuid])
        charged = offer or (d.uuid, memory, core, None)
        rows = [(index, ask.vendor, u, m, c, "") for u, m, c, _ in (*taken, charged)]
        if self.over_quota([*self.rows, *rows]):
            return "ResourceQuotaNotFit"
        if d.memory_mib - d.reserved_mib - w["m"] < memory:
            return "CardInsufficientMemory"
        if d.core_percent - w["c"] < core:
            return "CardInsufficientCore"
        if core == 100 and d.core_percent == 100 and w["n"] > 0:
            return "ExclusiveDeviceAllocateConflict"
        if core == 0 and d.core_percent != 0 and w["c"] == d.core_percent:
            return "CardComputeUnitsExhausted"
        return offer or "CardMigTopologyInfeasible"

    def instance(
        self, d: Device, w: dict[str, Any], memory: int, taken: list[tuple[str, int, int, Any]]
    ) -> tuple[str, int, int, Any] | None:
        if w["n"] + len(taken) >= d.slots:
            return None
        busy = {
            s
            for use in [*w["mig"], *(t[3] for t in taken)]
            for s in range(use.placement.start, use.placement.start + use.placement.size)
        }
        for p in sorted(d.mig_profiles, key=lambda p: (p.memory_mib, p.slice_count)):
            if p.memory_mib < memory:
                continue
            starts = sorted(p.placements, key=lambda x: (x.start, x.size), reverse=p.name[:3] in ("1g.", "3g."))
            for spot in starts:
                if not busy & set(range(spot.start, spot.start + spot.size)):
                    return d.uuid, p.memory_mib, p.core_percent, MigUse(p.name, spot)
        return None
