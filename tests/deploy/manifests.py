"""Reads deploy/: the single files, and what kustomize makes of them where kubectl is there.

Must not know: what tests assert.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import binaries

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BASE = DEPLOY / "base"

Manifest = dict[str, Any]


def documents(path: Path) -> list[Manifest]:
    """The objects of one YAML file."""
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]


def committed() -> list[Manifest]:
    """Every object in deploy/, in the order of the files."""
    return [one for path in sorted(DEPLOY.rglob("*.yaml")) for one in documents(path)]


def named(kind: str, name: str) -> Manifest:
    """The one object of this kind and name in the base or beside it; patches of components do not count."""
    paths = [*BASE.rglob("*.yaml"), *(DEPLOY / "migrate").glob("*.yaml")]
    found = [one for path in paths for one in documents(path) if one["kind"] == kind]
    (only,) = [one for one in found if one.get("metadata", {}).get("name") == name]
    return only


def workloads(objects: list[Manifest]) -> list[Manifest]:
    """What makes pods."""
    return [one for one in objects if one["kind"] in {"Deployment", "DaemonSet", "Job"} and "$patch" not in one]


def pod_of(workload: Manifest) -> Manifest:
    """The spec of a workload's pods."""
    spec: Manifest = workload["spec"]["template"]["spec"]
    return spec


def containers(workload: Manifest) -> Iterator[Manifest]:
    """All containers of a workload's pods, init containers first."""
    spec = pod_of(workload)
    yield from (*spec.get("initContainers", ()), *spec["containers"])


def lines(path: Path) -> dict[str, str]:
    """The settings of an .env file."""
    kept = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in kept)}


def built(folder: Path) -> list[Manifest]:
    """What `kubectl kustomize` makes of a folder. Skips where there is no kubectl."""
    kubectl = binaries.folder() / "kubectl"
    if not kubectl.is_file():
        pytest.skip("no kubectl: run make control-plane once, or set HAMI_E2E_BIN to a folder that holds it")
    done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]
