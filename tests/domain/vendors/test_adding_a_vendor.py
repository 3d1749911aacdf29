"""A vendor that nobody has is added as docs/adding-a-vendor.md says, from the files on that page, and is served."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from accounting import live_view
from accounting.services import bindings, device_config, native_quotas, observe, what_if
from hami_platform.domain import admission, explain
from hami_platform.domain.vendors import registry
from scheduler_ext import subject, webhook_config
from tests.accounting import flow, kube_objects
from tests.conformance import command

PAGE = command.ROOT / "docs" / "adding-a-vendor.md"
VENDORS = pathlib.Path("hami_platform/domain/vendors")
NPU, MEMORY, CORES = "acme.example/npu", "acme.example/npu-memory", "acme.example/npu-cores"


def blocks(language: str) -> list[str]:
    """The page's code blocks in a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def overlaid(root: pathlib.Path, source: pathlib.Path, own: pathlib.Path) -> None:
    """A copy of the project made of links, but for the folder `own`, which is real."""
    for item in source.iterdir():
        target = root / item.name
        if item.name in (".git", ".state", "__pycache__"):
            continue
        if own.parts and item.name == own.parts[0]:
            target.mkdir()
            overlaid(target, item, pathlib.Path(*own.parts[1:]))
        elif item.suffix == ".py":
            target.write_bytes(item.read_bytes())
        else:
            target.symlink_to(item)


@pytest.fixture
def project(tmp_path: pathlib.Path) -> pathlib.Path:
    """The project with Acme in it."""
    overlaid(tmp_path, command.ROOT, VENDORS)
    module, line = blocks("python")
    (tmp_path / VENDORS / "acme.py").write_text(module, encoding="utf-8")
    listed = tmp_path / VENDORS / "registry.py"
    text = listed.read_text(encoding="utf-8")
    text = text.replace("import (\n", "import (\n    acme,\n", 1).replace("] = {\n", f"] = {{\n{line}", 1)
    listed.write_text(text, encoding="utf-8")
    vectors = tmp_path / "made"
    (vectors / "configs").mkdir(parents=True)
    (vectors / "vendor-Acme.json").write_text(blocks("json")[0], encoding="utf-8")
    (vectors / "configs" / "acme.json").write_text('{"acme": {}}', encoding="utf-8")
    return tmp_path


def test_the_page_s_vectors_pass_when_its_module_and_its_line_are_there(project: pathlib.Path) -> None:
    found = subprocess.run(
        [sys.executable, "manage.py", "conformance", "made/vendor-Acme.json"],
        cwd=project, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert found.stdout.splitlines()[-1] == "1 passed, 0 failed", found.stdout + found.stderr


@pytest.fixture
def acme(project: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The page's module, registered in this process."""
    spec = importlib.util.spec_from_file_location("acme", project / VENDORS / "acme.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(registry.DECLARATIONS, module.CONFIG_KEY, module.declare_all)
    device_config._read.cache_clear()
    monkeypatch.setattr(flow, "CONFIG", registry.default_config())
    yield module
    device_config._read.cache_clear()


def npu_node() -> dict[str, Any]:
    (vector,) = json.loads(blocks("json")[0])["vectors"]
    (node,) = vector["nodes"]
    return kube_objects.node("n1", agent="", annotations=node["metadata"]["annotations"])


def npu_pod(name: str, count: int, units: int) -> dict[str, Any]:
    limits = {NPU: str(count), MEMORY: str(units), CORES: "20"}
    return kube_objects.pod(name, {"name": "main", "image": "busybox", "resources": {"limits": limits}})


@pytest.mark.django_db
def test_an_added_vendor_is_charged_placed_bound_given_back_and_explained(acme: ModuleType) -> None:
    flow.cluster(npu_node())
    hard = {f"limits.{MEMORY}": "48"}
    quota = {"metadata": {"namespace": "nlp", "name": "q"}, "spec": {"hard": hard}}
    native_quotas.native_quotas_observe([quota], config=flow.CONFIG, complete=True)
    denied = flow.admit(npu_pod("greedy", 2, 25))
    assert "needs 12800, free 12288 of 12288" in denied.message
    pod = npu_pod("p", 2, 16)
    assert flow.admit(pod).granted
    assert flow.filter_(pod).node == "n1"
    plan = flow.bind(pod)
    assert isinstance(plan, bindings.BindingPlan)
    assert plan.annotations["hami.io/acme-devices-allocated"] == "npu-2,Acme,4096,20:npu-0,Acme,4096,20:;"
    bindings.binding_bound(uid=plan.uid, node="n1")
    assert (flow.charged_mib(), flow.used_mib("npu-0"), flow.used_mib("npu-1")) == (8192, 4096, 0)
    flow.view_is_true()
    native_quotas.native_quota_gone(namespace="nlp", name="q")
    waits = npu_pod("waits", 3, 20)
    assert flow.admit(waits).granted
    assert flow.filter_(waits).reason == "CardInsufficientMemory"
    view = live_view.live().refresh()
    row = view.pod("uid-waits")
    assert row is not None
    explained = what_if.explain_pod(view, row)
    assert explained.verdict is explain.Verdict.NO_FIT_NOW
    assert explained.fixes, "something would make it run"
    assert explained.nodes[0].text == "1/3 AllocatedCardsInsufficientRequest, 2/3 CardInsufficientMemory"
    observe.pods_gone(["uid-p"])
    assert flow.filter_(waits).node == "n1"


def test_an_added_vendor_s_keys_are_owned_and_its_pods_are_asked_about(acme: ModuleType) -> None:
    forged = npu_pod("p", 1, 1)
    forged["metadata"]["annotations"]["hami.io/acme-devices-allocated"] = "npu-0,Acme,1,1:;"
    verdict = admission.review(forged, config=flow.CONFIG, settings=admission.AdmissionSettings())
    assert isinstance(verdict, admission.Denied)
    assert "hami.io/acme-devices-allocated" in verdict.message
    asked = str(webhook_config.conditions_create(subject.subject()))
    assert NPU in asked
    assert "hami.io/acme-devices-allocated" in asked


def strings(file: pathlib.Path) -> Iterator[tuple[int, str]]:
    """The texts that a module works with, without its docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.lineno, node.value


ABOUT_ONE_VENDOR = {
    "accounting/selectors/readings.py": "the agent reads NVIDIA's devices only",
    "accounting/services/refits.py": "what it serves is a call of NVIDIA's plugin only",
    "accounting/services/scenarios.py": "what a question without a vendor is about",
    "accounting/services/simulations.py": "what a question without a vendor is about",
}


def test_no_vendor_is_named_in_shared_code() -> None:
    names = {part for vendor in registry.all_vendors() for part in (vendor.word, vendor.resources.count.split("/")[0])}
    pattern = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in sorted(names)), re.IGNORECASE)
    shared = [
        *(command.ROOT / "hami_platform" / "domain").glob("*.py"),
        *(command.ROOT / "hami_platform" / "domain" / "wire").glob("*.py"),
        *(command.ROOT / "hami_platform" / "kube").rglob("*.py"),
        *(command.ROOT / "accounting").glob("*.py"),
        *(command.ROOT / "accounting" / "services").rglob("*.py"),
        *(command.ROOT / "accounting" / "selectors").rglob("*.py"),
        *(command.ROOT / "scheduler_ext").glob("*.py"),
    ]
    found = [
        f"{file.relative_to(command.ROOT)}:{line}: {text!r}"
        for file in shared
        if str(file.relative_to(command.ROOT)) not in ABOUT_ONE_VENDOR
        for line, text in strings(file)
        if pattern.search(text)
    ]
    assert not found
