"""What each account may do in the cluster is what the code of its process asks for, no less and no more.

Which calls a process makes is read from its source: every builder of `kube.calls` that is named in its modules. The
acceptance tests run the processes with these very accounts on a real API server; here a right that is missing or left
over shows at once.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hami_platform.kube import calls, objects
from tests.deploy import manifests
from tests.deploy.manifests import BASE, DEPLOY, ROOT

Right = tuple[str, str]
"""Verb and resource, as RBAC names them."""

AGENT = ["deviceplugin", "hami_platform/kube/leases.py"]
REFIT = ["scheduler_ext/refit.py", "scheduler_ext/events.py", "scheduler_ext/callers.py"]
EXTENDER = ["scheduler_ext"]
LEDGER = ["accounting"]
VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
OF_PLAIN_SCHEDULERS = {("create", "tokenreviews")}
"""Also granted by Kubernetes' own role system:kube-scheduler, which the extender's account has."""
TO_ANYBODY = {("get", "version")}
IN_HAMI_MODE = {("patch", "pods")}
"""The agent's, and only where HAMi's scheduler serves the node: its manifest says so."""


def named_in(*places: str) -> set[str]:
    """Builders that these modules name."""
    files = [file for place in places for file in _files(ROOT / place)]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    return {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "calls"
    }


def _files(place: Path) -> Iterator[Path]:
    return iter([place]) if place.suffix else place.rglob("*.py")


def asked_by(*places: str) -> set[Right]:
    """Rights that the calls of these modules need."""
    found: set[Right] = set()
    for name in named_in(*places):
        builder = getattr(calls, name)
        if inspect.isfunction(builder) and not name.startswith("_"):
            found |= set(_rights(builder))
    return found - TO_ANYBODY


def _rights(builder: Any) -> Iterator[Right]:
    examples: dict[str, Any] = {"LeaseSpec": objects.LeaseSpec(), "Sequence": (), "Mapping": {}, "Changes": {}}
    given = {
        name: next((value for word, value in examples.items() if word in str(one.annotation)), "x")
        for name, one in inspect.signature(builder).parameters.items()
        if one.default is inspect.Parameter.empty
    }
    call = builder(**given)
    if isinstance(call, calls.Listing):
        yield "list", _resource(call.page().path)
    elif isinstance(call, calls.KubeCall):
        yield VERBS.get(call.method, "get"), _resource(call.path)


def _resource(path: str) -> str:
    """`pods/binding` of `/api/v1/namespaces/x/pods/x/binding`."""
    scope = re.sub(r"^/api(s/[^/]+)?/[^/]+/(namespaces/[^/]+/)?|^/", "", path)
    kind, _, rest = scope.partition("/")
    sub = rest.partition("/")[2]
    return f"{kind}/{sub}" if sub else kind


def given_to(path: Path, *names: str) -> set[Right]:
    """Rights in the roles of these names in one file."""
    roles = [one for one in manifests.documents(path) if one["kind"] in {"ClusterRole", "Role"}]
    return {
        (verb, resource)
        for one in roles
        if one["metadata"]["name"] in names
        for rule in one["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def without_watching(rights: set[Right]) -> set[Right]:
    return {(verb, resource) for verb, resource in rights if verb != "watch"}


def test_the_agent() -> None:
    given = given_to(BASE / "rbac" / "agent.yaml", "hami-platform-agent", "hami-platform-agent-leases")
    assert without_watching(given) == asked_by(*AGENT) - IN_HAMI_MODE


def test_the_extender() -> None:
    given = given_to(BASE / "rbac" / "scheduler.yaml", "hami-platform-extender")
    assert given == asked_by(*EXTENDER) - OF_PLAIN_SCHEDULERS


def test_the_webhook_where_it_answers_refits() -> None:
    given = given_to(DEPLOY / "components" / "refit" / "rights.yaml", "hami-platform-refit")
    assert asked_by(*REFIT) | {("patch", "pods")} == given


@pytest.mark.parametrize("role", ["watcher", "worker"])
def test_who_compares_may_do_what_comparing_asks_for(role: str) -> None:
    leases = {("list", "leases")}
    given = given_to(BASE / "rbac" / f"{role}.yaml", f"hami-platform-{role}", "hami-platform-read-leases") | leases
    only_worker = {("create", "events")}  # findings are told by a tick
    asked = asked_by(*LEDGER) - (only_worker if role == "watcher" else set())
    assert asked <= without_watching(given)
    assert all(verb in {"get", "list"} and examined(kind) for verb, kind in without_watching(given) - asked)


def examined(kind: str) -> bool:
    """Whether the doctor, which asks by plain paths, looks at such objects."""
    services = ROOT / "accounting" / "services"
    return any(kind in file.read_text(encoding="utf-8") for file in services.glob("doctor*.py"))


def test_only_who_watches_may_watch() -> None:
    watching = {
        path.stem
        for path in (BASE / "rbac").glob("*.yaml")
        for one in manifests.documents(path)
        for rule in one.get("rules", ())
        if "watch" in rule["verbs"]
    }
    assert watching == {"watcher", "agent"}
