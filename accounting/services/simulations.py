"""Questions of "what if", read from forms, REST bodies and manifests into the domain's values. Nothing is written.

A pod comes as fields, as JSON or as YAML (a Pod, or anything with a pod template) and passes admission as a real one
would. Raises InvalidInput that names the field. Must not know: HTTP requests, pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from django.utils.translation import gettext

from accounting.selectors import access, explained, simulated
from accounting.services import scenarios, what_if
from accounting.services.device_config import device_config
from accounting.services.errors import InvalidInput
from hami_platform import env
from hami_platform.domain import admission, explain, place, sentences, simulate
from hami_platform.domain.errors import ConfigError
from hami_platform.domain.sentences import phrase
from hami_platform.domain.vendors.base import DeviceConfig, Vendor
from hami_platform.domain.view import View
from hami_platform.domain.what_if import Ask
from hami_platform.kube import objects

MANIFEST_MAX = 256 * 1024
MOST_COPIES = 64
DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Submitted:
    """A pod as admission leaves it. ask None: denied, or it asks for no device; `problem` says which and why."""

    namespace: str
    ask: Ask | None
    problem: sentences.Sentence | None = None
    denied: bool = False


@dataclass(frozen=True, slots=True)
class Wish:
    """A pod by its amounts. memory_mib or memory_percent, or neither for whole devices; model: part of a model's
    name."""

    namespace: str
    devices: int = 1
    memory_mib: int | None = None
    memory_percent: int | None = None
    core_percent: int | None = None
    model: str = ""
    vendor: str = "NVIDIA"
    priority: int = 0


def from_wish(wish: Wish) -> Submitted:
    """The pod that somebody would write for this."""
    config = device_config()
    try:
        vendor = config.vendor(wish.vendor)
    except ConfigError as fault:
        raise InvalidInput("vendor", str(fault)) from fault
    return from_object(_manifest(wish, vendor), wish.namespace)


def _manifest(wish: Wish, vendor: Vendor) -> dict[str, Any]:
    names = vendor.resources
    amounts = (
        ("devices", names.count, wish.devices, 1),
        ("memory_mib", names.memory, wish.memory_mib, vendor.unit_mib),
        ("memory_percent", names.percent, wish.memory_percent, 1),
        ("core_percent", names.cores, wish.core_percent, 1),
    )
    limits: dict[str, str] = {}
    for field, name, amount, unit in amounts:
        if amount is None:
            continue
        if not name:
            raise InvalidInput(field, phrase("%(vendor)s has no resource for it", vendor=vendor.word))
        if amount % unit:
            raise InvalidInput(field, phrase("%(vendor)s counts in steps of %(n)s MiB", vendor=vendor.word, n=unit))
        limits[name] = str(amount // unit)
    annotations = {}
    if wish.model:
        if not vendor.selection.use_models:
            raise InvalidInput("model", phrase("%(vendor)s has no annotation that chooses models", vendor=vendor.word))
        annotations[vendor.selection.use_models] = wish.model
    container = {"name": "main", "image": "any", "resources": {"limits": limits}}
    metadata = {"name": "simulated", "namespace": wish.namespace, "annotations": annotations}
    return {"metadata": metadata, "spec": {"containers": [container], "priority": wish.priority}}


def from_text(text: str, namespace: str = "") -> Submitted:
    """A manifest in YAML or JSON: the first document that has a pod. Raises InvalidInput (field `manifest`)."""
    if len(text) > MANIFEST_MAX:
        raise InvalidInput("manifest", phrase("at most %(n)s characters", n=MANIFEST_MAX))
    try:
        documents = [json.loads(json.dumps(one, default=str)) for one in yaml.load_all(text, _Plain)]
    except (yaml.YAMLError, RecursionError, ValueError) as fault:
        raise InvalidInput(
            "manifest", phrase("neither YAML nor JSON: %(why)s", why=" ".join(str(fault).split())[:300])
        ) from fault
    found = next((pod for one in documents for pod in _pods(one)), None)
    if found is None:
        raise InvalidInput("manifest", phrase("there is no pod in it, and nothing with a pod template"))
    return from_object(found, namespace, field="manifest")


class _Plain(yaml.SafeLoader):
    """YAML without aliases: a few lines of them can stand for gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuses aliases."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read here")
        return super().compose_node(parent, index)


def _pods(document: Any) -> Iterator[dict[str, Any]]:
    """The pod of a document: itself, a list's, or one as its template would make it."""
    if not isinstance(document, dict):
        return
    items, spec = document.get("items"), document.get("spec")
    if isinstance(items, list):
        for one in items:
            yield from _pods(one)
    elif isinstance(spec, dict) and isinstance(spec.get("containers"), list):
        yield document
    elif isinstance(spec, dict):
        metadata = document.get("metadata")
        own = metadata.get("namespace") if isinstance(metadata, dict) else None
        for name in ("template", "jobTemplate"):
            for pod in _pods(spec.get(name)):
                inner = pod.get("metadata") if isinstance(pod.get("metadata"), dict) else {}
                yield {**pod, "metadata": {"namespace": own, **(inner or {})}}


def from_object(pod: Mapping[str, Any], namespace: str = "", *, field: str = "pod") -> Submitted:
    """A pod object. One that a cluster has made already is read as its controller would make it anew.

    Raises InvalidInput, about `field`, for what is no pod.
    """
    config = device_config()
    _refuse_what_is_no_pod(pod, field)
    metadata = pod.get("metadata")
    own = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    where = namespace or (own if isinstance(own, str) else "") or DEFAULT_NAMESPACE
    verdict = admission.review(_as_new(pod, config), config=config, settings=_settings())
    if isinstance(verdict, admission.Denied):
        return Submitted(where, None, sentences.Sentence("%(text)s", (("text", verdict.message),)), denied=True)
    if isinstance(verdict, admission.Mutated):
        return Submitted(where, Ask(where, verdict.request, priority=_priority(pod)))
    if verdict.unmanaged:
        return Submitted(where, None, sentences.phrase("Another scheduler places it: the platform would not touch it."))
    return Submitted(where, None, sentences.phrase("It asks for no device: the platform would not touch it."))


def _refuse_what_is_no_pod(pod: Mapping[str, Any], field: str) -> None:
    """The API server never shows admission a pod whose fields have other types."""
    try:
        objects.decode(json.dumps(pod).encode(), objects.Pod)
    except (objects.Undecodable, ValueError, RecursionError) as fault:
        raise InvalidInput(field, phrase("not a pod: %(why)s", why=str(fault))) from fault


def _settings() -> admission.AdmissionSettings:
    settings = env.current()
    return admission.AdmissionSettings(
        scheduler_name=settings.scheduler_name, force_overwrite=settings.force_overwrite_default_scheduler
    )


def _as_new(pod: Mapping[str, Any], config: DeviceConfig) -> Mapping[str, Any]:
    """A pod with a uid was made by a cluster: what scheduler and admission added to it goes."""
    metadata, spec = pod.get("metadata"), pod.get("spec")
    if not isinstance(metadata, Mapping) or not isinstance(spec, Mapping) or not metadata.get("uid"):
        return pod
    fresh = {**metadata}
    for part in ("annotations", "labels"):
        kept = metadata.get(part)
        if isinstance(kept, Mapping):
            fresh[part] = {key: value for key, value in kept.items() if key not in config.owned_keys}
    left_out = ("nodeName", "schedulingGates")
    return {**pod, "metadata": fresh, "spec": {key: value for key, value in spec.items() if key not in left_out}}


def _priority(pod: Mapping[str, Any]) -> int:
    value = (pod.get("spec") or {}).get("priority") or 0
    return value if isinstance(value, int) else 0


@dataclass(frozen=True, slots=True)
class Simulation:
    """The answer. explanation: of the pod on the changed cluster. copies: where each of them goes. effect: of the
    changes."""

    explanation: explain.Explanation | None = None
    copies: tuple[place.Placement, ...] = ()
    wanted: int = 1
    effect: simulate.Effect | None = None

    @property
    def fits(self) -> bool | None:
        """Whether all copies are placed; None where no pod was asked about."""
        return None if self.explanation is None else len(self.copies) == self.wanted


def simulation(
    view: View, submitted: Submitted | None, changes: Sequence[scenarios.Change] = (), *, copies: int = 1
) -> Simulation:
    """Ask the pod on the View with the changes, and what the changes do to the pods of today."""
    scenario = scenarios.scenario_of(view, changes)
    changed = simulate.after(view, scenario, what_if.decide).view if changes else view
    effect = simulate.effect(view, scenario, what_if.decide) if changes else None
    if submitted is None or submitted.ask is None:
        return Simulation(effect=effect, wanted=copies)
    found = explain.explain(changed, submitted.ask, what_if.decide)
    placed: tuple[place.Placement, ...] = (found.placement,) if found.placement is not None else ()
    if placed and copies > 1:
        placed = tuple(simulate.copies(changed, submitted.ask, copies, what_if.decide))
    return Simulation(found, placed, copies, effect)


def shown(reader: explained.Reader, submitted: Submitted | None, found: Simulation) -> dict[str, Any]:
    """The answer as plain data, within the reader's reach."""
    ask = submitted.ask if submitted is not None else None
    problem = submitted.problem if submitted is not None else None
    explanation = None
    if ask is not None and found.explanation is not None:
        explanation = explained.of_ask(reader, ask.namespace, ask.request, found.explanation)
    return {
        "problem": reader.tell(problem) if problem is not None else "",
        "fits": False if problem is not None else found.fits,
        "explanation": explanation,
        "copies": [one.node for one in found.copies],
        "effect": simulated.of_effect(reader, found.effect) if found.effect is not None else None,
    }


def unseen(view: View, reach: access.Reach, submitted: Submitted | None, changes: Sequence[scenarios.Change]) -> str:
    """Why this reader may not ask this; empty: she may."""
    if submitted is not None and not reach.sees(submitted.namespace):
        return gettext("You have no role in the namespace %(name)s.") % {"name": submitted.namespace}
    tenants = {row.name: row.id for row in view.tenants.values()}
    for what, name in scenarios.namespaces_of(view, changes):
        if what == "namespace" and not reach.sees(name):
            return (
                gettext("You have no role in the namespace %(name)s.") % {"name": name}
                if name
                else gettext("There is no such live pod.")
            )
        if what == "tenant" and not reach.everything and not reach.sees_tenant(tenants.get(name, 0)):
            return gettext("You have no role in the tenant %(name)s.") % {"name": name}
    return ""
