"""Smaller requests that would fit: less memory, fewer cores, fewer devices, fewer conditions.

Finds the largest amount that fits by halving; amounts are whole MiB, percent and devices. Every find is tried again by
`fixes` on all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from hami_platform.domain.fixes import OWNER, Draft, Fix, Kind, Scene, Step
from hami_platform.domain.requests import Constraints, DeviceRequest, PodRequest
from hami_platform.domain.sentences import Sentence, phrase

Cap = Callable[[DeviceRequest, int], DeviceRequest]


def less_memory(scene: Scene) -> Iterator[Draft]:
    """The most memory per device that would fit: in MiB, or in percent where the pod asks for that."""
    request = scene.ask.request
    most_mib = _most(request, lambda ask: ask.memory_mib)
    most_percent = _most(request, lambda ask: 0 if ask.memory_mib > 0 else ask.memory_percent or 0)
    if most_mib > 1:
        yield from _capped(scene, Kind.MEMORY, most_mib, _at_most_mib, _say_mib)
    if most_percent > 1:
        yield from _capped(scene, Kind.MEMORY, most_percent, _at_most_percent, _say_percent)


def fewer_cores(scene: Scene) -> Iterator[Draft]:
    """The most cores per device that would fit."""
    most = _most(scene.ask.request, lambda ask: ask.core_percent)
    if most > 1:
        yield from _capped(scene, Kind.CORES, most, _at_most_cores, _say_cores)


def fewer_devices(scene: Scene) -> Iterator[Draft]:
    """The most devices per container that would fit."""
    most = _most(scene.ask.request, lambda ask: ask.count)
    if most > 1:
        yield from _capped(scene, Kind.DEVICES, most, _at_most_devices, _say_devices)


def smaller(scene: Scene) -> Iterator[Draft]:
    """Memory and cores in proportion, where neither alone helps."""
    request = scene.ask.request
    most_mib, most_cores = _most(request, lambda ask: ask.memory_mib), _most(request, lambda ask: ask.core_percent)
    if most_mib < 2 or most_cores < 2:
        return

    def scaled(part: int) -> PodRequest:
        memory_mib, cores = max(1, most_mib * part // 100), max(1, most_cores * part // 100)
        return mapped(mapped(request, lambda ask: _at_most_mib(ask, memory_mib)), lambda a: _at_most_cores(a, cores))

    part = _largest(99, lambda value: _works(scene, scaled(value)))
    if part:
        memory_mib, cores = max(1, most_mib * part // 100), max(1, most_cores * part // 100)
        steps = (
            Step(Kind.MEMORY, _say_mib(memory_mib, most_mib), OWNER, value=memory_mib),
            Step(Kind.CORES, _say_cores(cores, most_cores), OWNER, value=cores),
        )
        yield Draft(steps, request=scaled(part), size=(100 - part) / 100)


def fewer_conditions(scene: Scene) -> Iterator[Draft]:
    """Each condition that the pod's annotations set, left out by itself."""
    for name, free, action in _CONDITIONS:
        request = _without(scene.ask.request, name, free)
        if request != scene.ask.request and _works(scene, request):
            yield Draft((Step(Kind.CONSTRAINT, action, OWNER, (name,)),), request=request)


def unconditional(scene: Scene) -> Draft | None:
    """Every condition that the pod's annotations set left out, to look further from there; None where there is none."""
    request, steps = scene.ask.request, []
    for name, free, action in _CONDITIONS:
        without = _without(request, name, free)
        if without != request:
            request = without
            steps.append(Step(Kind.CONSTRAINT, action, OWNER, (name,)))
    return Draft(tuple(steps), request=request) if steps else None


def single(scene: Scene) -> Draft | None:
    """One device for each container, to look further from there; None where that is what it asks for."""
    most = _most(scene.ask.request, lambda ask: ask.count)
    if most < 2:
        return None
    request = mapped(scene.ask.request, lambda ask: _at_most_devices(ask, 1))
    return Draft((Step(Kind.DEVICES, _say_devices(1, most), OWNER, value=1),), request=request, size=1.0)


def trimmed(scene: Scene, fix: Fix) -> Fix:
    """The fix without the conditions that need not be touched: some were, to look further from there."""
    for step in fix.steps:
        if step.kind is Kind.CONSTRAINT and len(fix.steps) > 1 and fix.draft.request is not None:
            request = _restored(scene.ask.request, fix.draft.request, step.target[0])
            others = tuple(other for other in fix.steps if other is not step)
            fix = scene.fix(replace(fix.draft, steps=others, request=request)) or fix
    return fix


def _restored(original: PodRequest, request: PodRequest, name: str) -> PodRequest:
    """The request with one condition as the pod had it."""

    def own(constraints: Constraints, before: Constraints) -> Constraints:
        return replace(constraints, **{name: getattr(before, name)})

    before = original.constraints
    by_vendor = tuple((word, own(one, before.of(word))) for word, one in request.constraints.by_vendor)
    return replace(request, constraints=replace(own(request.constraints, before), by_vendor=by_vendor))


_CONDITIONS: tuple[tuple[str, object, Sentence], ...] = (
    ("use_models", None, phrase("Accept every model: drop the annotation that chooses models.")),
    ("nouse_models", None, phrase("Accept the excluded models: drop the annotation that excludes some.")),
    ("use_uuids", None, phrase("Accept every device: drop the annotation that names uuids.")),
    ("nouse_uuids", None, phrase("Accept the excluded devices: drop the annotation that excludes uuids.")),
    ("vgpu_mode", None, phrase("Accept every sharing mode: drop the annotation that chooses one.")),
    ("numa_bind", False, phrase("Accept devices of different NUMA nodes: drop numa-bind.")),
    ("device_policy", None, phrase("Use the cluster's device policy: drop the pod's own.")),
)


def mapped(request: PodRequest, change: Callable[[DeviceRequest], DeviceRequest]) -> PodRequest:
    """The request with each of its parts changed."""
    containers = tuple(
        replace(container, devices=tuple(change(ask) for ask in container.devices)) for container in request.containers
    )
    return replace(request, containers=containers)


def _without(request: PodRequest, name: str, free: object) -> PodRequest:
    def freed(constraints: Constraints) -> Constraints:
        return replace(constraints, **{name: free})  # type: ignore[arg-type]

    own = request.constraints
    by_vendor = tuple((word, freed(one)) for word, one in own.by_vendor)
    return replace(request, constraints=replace(freed(own), by_vendor=by_vendor))


def _capped(scene: Scene, kind: Kind, most: int, cap: Cap, action: Callable[[int, int], Sentence]) -> Iterable[Draft]:
    """The draft with the largest cap below `most` that would fit, if there is one."""
    request = scene.ask.request

    def at(value: int) -> PodRequest:
        return mapped(request, lambda ask: cap(ask, value))

    value = _largest(most - 1, lambda one: _works(scene, at(one)))
    if not value:
        return ()
    step = Step(kind, action(value, most), OWNER, value=value)
    return (Draft((step,), request=at(value), size=(most - value) / most),)


def _largest(most: int, works: Callable[[int], bool]) -> int:
    """The largest of 1 … most that works, if less always works where more does; 0 for none. What it gives works."""
    low, high = 0, most
    if works(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if works(middle):
            low = middle
        else:
            high = middle
    return low


def _works(scene: Scene, request: PodRequest) -> bool:
    """Whether the request would fit on one of the nodes near it."""
    return scene.tried(Draft((), request=request), scene.near).placement is not None


def _most(request: PodRequest, amount: Callable[[DeviceRequest], int]) -> int:
    return max((amount(ask) for container in request.containers for ask in container.devices), default=0)


def _at_most_mib(ask: DeviceRequest, value: int) -> DeviceRequest:
    return replace(ask, memory_mib=min(ask.memory_mib, value))


def _at_most_percent(ask: DeviceRequest, value: int) -> DeviceRequest:
    if ask.memory_mib > 0 or ask.memory_percent is None:
        return ask
    return replace(ask, memory_percent=min(ask.memory_percent, value))


def _at_most_cores(ask: DeviceRequest, value: int) -> DeviceRequest:
    return replace(ask, core_percent=min(ask.core_percent, value))


def _at_most_devices(ask: DeviceRequest, value: int) -> DeviceRequest:
    return replace(ask, count=min(ask.count, value))


def _say_mib(value: int, most: int) -> Sentence:
    return phrase("Ask for %(value)s MiB a device instead of %(most)s.", value=value, most=most)


def _say_percent(value: int, most: int) -> Sentence:
    return phrase("Ask for %(value)s %% of a device's memory instead of %(most)s %%.", value=value, most=most)


def _say_cores(value: int, most: int) -> Sentence:
    return phrase("Ask for %(value)s %% of a device's cores instead of %(most)s %%.", value=value, most=most)


def _say_devices(value: int, most: int) -> Sentence:
    return phrase("Ask for %(value)s devices a container instead of %(most)s.", value=value, most=most)
