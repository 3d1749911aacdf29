"""Changes of a cluster as people describe them, read into scenarios: a quota, new nodes, a cordon, a drain, an end.

Nothing is written. Raises InvalidInput that names the field. Must not know: requests, pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from accounting.services import quotas
from accounting.services.errors import InvalidInput
from hami_platform.domain import simulate
from hami_platform.domain.devices import Device
from hami_platform.domain.errors import RequestError
from hami_platform.domain.quota import Limits, Rule, Selector
from hami_platform.domain.rows import Changes, QuotaRow
from hami_platform.domain.sentences import phrase
from hami_platform.domain.simulate import Scenario
from hami_platform.domain.view import View

Change = Mapping[str, Any]
NEW = -1
"""Id of a quota that does not exist yet, in a simulated View only."""
MOST_CHANGES = 20
AMOUNT_MAX = 2**53


def scenario_of(view: View, changes: Iterable[Change]) -> Scenario:
    """All the changes, each made on top of those before. A change is an object with `kind` and what that needs."""
    found = Scenario()
    for number, change in enumerate(changes):
        if number >= MOST_CHANGES:
            raise InvalidInput("changes", phrase("more than %(n)s", n=MOST_CHANGES))
        if not isinstance(change, Mapping):
            raise InvalidInput("changes", phrase("an object with `kind` is expected"))
        read = _KINDS.get(str(change.get("kind", "")))
        if read is None:
            raise InvalidInput("kind", phrase("one of %(names)s", names=", ".join(sorted(_KINDS))))
        try:
            found += read(view.fold(found.changes), change)
        except RequestError as fault:
            raise InvalidInput(fault.key or "changes", str(fault)) from fault
    return found


def _quota(view: View, change: Change) -> Scenario:
    """namespace or tenant, name, and limits: those that are named change, null lifts one."""
    namespace, tenant, name = _text(change, "namespace"), _text(change, "tenant"), _text(change, "name") or "default"
    if bool(namespace) == bool(tenant):
        raise InvalidInput("namespace", phrase("name one namespace or one tenant"))
    limits = _limits(change.get("limits"))
    rule_name = f"{namespace or tenant}/{name}"
    tenant_id = next((row.id for row in view.tenants.values() if row.name == tenant), None) if tenant else None
    if tenant and tenant_id is None:
        raise InvalidInput("tenant", phrase("there is no tenant %(name)s", name=tenant))
    for row in view.quotas.values():
        if row.rule.name == rule_name and row.namespace == (namespace or None) and row.tenant == tenant_id:
            return simulate.quota_change(
                replace(row, rule=replace(row.rule, limits=replace(row.rule.limits, **limits)), in_force=True)
            )
    fresh = Rule(rule_name, Selector(_text(change, "vendor"), _text(change, "model_pattern")), Limits(**limits))
    ids = [key for key in view.quotas if key < 0]
    return simulate.quota_change(QuotaRow(min([NEW, *(key - 1 for key in ids)]), fresh, namespace or None, tenant_id))


def _limits(given: Any) -> dict[str, int | None]:
    names = [one.name for one in fields(Limits)]
    if not isinstance(given, Mapping) or not given:
        raise InvalidInput("limits", phrase("an object with some of %(names)s", names=", ".join(names)))
    for name, value in given.items():
        if name not in names:
            raise InvalidInput(f"limits.{name}", phrase("one of %(names)s", names=", ".join(names)))
        if value is not None and not _is_amount(value):
            raise InvalidInput(f"limits.{name}", phrase("a whole number, or null for no limit"))
    quotas.limits_checked(Limits(**given), ceiling_mib=quotas.ceiling_mib())
    return dict(given)


def _nodes(view: View, change: Change) -> Scenario:
    """count nodes like another one, or of devices that are described."""
    count, like = _whole(change, "count", 1), _text(change, "like")
    name = _text(change, "name") or "new"
    if like:
        return simulate.node_group(view, like=like, count=count, names=name)
    device = Device(
        "", 0, _text(change, "vendor") or "NVIDIA", _text(change, "model"),
        memory_mib=_whole(change, "memory_mib", None), core_percent=_whole(change, "core_percent", 100),
        slots=_whole(change, "slots", 10), mode=_text(change, "mode"),
    )  # fmt: skip
    return simulate.node_group_of(device=device, devices=_whole(change, "devices", 8), count=count, names=name)


def _cordon(view: View, change: Change) -> Scenario:
    return _closed(view, change, cordoned=True)


def _uncordon(view: View, change: Change) -> Scenario:
    return _closed(view, change, cordoned=False)


def _closed(view: View, change: Change, *, cordoned: bool) -> Scenario:
    """One device by uuid, or a whole node."""
    uuid, node = _text(change, "uuid"), _text(change, "node")
    if not uuid:
        return simulate.node_cordon(view, node=node, cordoned=cordoned)
    if not node:
        known = (row.name for row in view.nodes.values() if any(one.uuid == uuid for one in row.devices))
        node = next(known, "")
        if not node:
            raise InvalidInput("uuid", phrase("there is no device %(uuid)s", uuid=uuid))
    return simulate.device_cordon(view, node=node, uuid=uuid, cordoned=cordoned)


def _drain(view: View, change: Change) -> Scenario:
    return simulate.node_drain(view, node=_text(change, "node"))


def _remove(view: View, change: Change) -> Scenario:
    return simulate.node_gone(view, node=_text(change, "node"))


def _end(view: View, change: Change) -> Scenario:
    """A pod that is over, by uid."""
    row = view.pod(_text(change, "pod"))
    if row is None:
        raise InvalidInput("pod", phrase("there is no live pod %(name)s", name=_text(change, "pod")))
    return Scenario(Changes(pods={row.id: None}))


_KINDS: Mapping[str, Callable[[View, Change], Scenario]] = {
    "quota": _quota,
    "nodes": _nodes,
    "cordon": _cordon,
    "uncordon": _uncordon,
    "drain": _drain,
    "remove": _remove,
    "end": _end,
}
KINDS = tuple(sorted(_KINDS))


def namespaces_of(view: View, changes: Iterable[Change]) -> Iterable[tuple[str, str]]:
    """(what, name) of everything that a change names and that not everybody may see: namespaces, tenants, pods."""
    for change in changes:
        for what in ("namespace", "tenant"):
            if change.get("kind") == "quota" and change.get(what):
                yield what, str(change[what])
        if change.get("kind") == "end":
            row = view.pod(_text(change, "pod"))
            yield "namespace", row.namespace if row is not None else ""


def _text(change: Change, name: str) -> str:
    value = change.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > 253 or "\0" in value:
        raise InvalidInput(name, phrase("a text of at most 253 characters"))
    return value.strip()


def _whole(change: Change, name: str, default: int | None) -> int:
    value = change.get(name)
    if value is None and default is not None:
        return default
    if not _is_amount(value):
        raise InvalidInput(name, phrase("a whole number"))
    return int(str(value))


def _is_amount(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= AMOUNT_MAX
