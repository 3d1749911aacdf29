"""The control plane's binaries: where they lie, and how `go build` makes them.

They are built from the Go modules beside this file and kept outside the checkout, in a folder named
after a hash of everything that decides their bytes, so a new version never meets an old binary. The
build takes about 14 minutes on two empty cores and one minute once Go's own cache is warm.

Must not know: what the binaries are started with.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


class BinariesMissing(Exception):
    """The machine's fault: a binary is absent and there is no Go toolchain to build it."""


@dataclass(frozen=True, slots=True)
class Target:
    """One binary: its name, its main package and the module folder that pins its version."""

    name: str
    package: str
    module: Path = HERE


CONTROL_PLANE = (
    Target("etcd", "go.etcd.io/etcd/server/v3"),
    Target("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Target("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Target("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Target("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    Target("kwok", "sigs.k8s.io/kwok/cmd/kwok", HERE / "kwok"),
)
KUBELET = Target("kubelet", "k8s.io/kubernetes/cmd/kubelet")
TARGETS = {target.name: target for target in (*CONTROL_PLANE, KUBELET)}


def kubernetes_version() -> str:
    """The pinned release, such as "v1.36.3", read from go.mod."""
    for line in (HERE / "go.mod").read_text().splitlines():
        words = line.split()
        if words[:1] == ["k8s.io/kubernetes"]:
            return words[1]
    raise BinariesMissing("go.mod does not require k8s.io/kubernetes")


def link_flags(target: Target) -> str:
    """The -ldflags of one target.

    Kubernetes' version symbols are empty in a module build, and then /version, the nodes' version and
    every User-Agent read "v0.0.0-master+$Format:%H$". Changing them costs a link, not a compilation.
    """
    if target.module != HERE:
        return "-s -w"
    version = kubernetes_version()
    major, minor = version.removeprefix("v").split(".")[:2]
    symbols = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "archive",
        "gitCommit": f"module-{version}",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    stamps = [f"-X {package}.{name}={value}" for package in packages for name, value in symbols.items()]
    return " ".join(("-s -w", *stamps))


def cache_root() -> Path:
    """The folder above all versions: $XDG_CACHE_HOME or ~/.cache, then hami-platform/cluster."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "hami-platform" / "cluster"


def cache_key() -> str:
    """A hash of the pinned modules and link flags: another version is another folder."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "kwok/go.mod", "kwok/go.sum"):
        digest.update((HERE / name).read_bytes())
    for target in TARGETS.values():
        digest.update(link_flags(target).encode())
    return digest.hexdigest()[:16]


def folder() -> Path:
    """Where the binaries are looked for; HAMI_E2E_BIN names another folder, which is never built into."""
    override = os.environ.get("HAMI_E2E_BIN")
    return Path(override) if override else cache_root() / cache_key()


def missing(targets: Sequence[Target] = CONTROL_PLANE) -> list[Target]:
    """The targets that have no binary yet."""
    return [target for target in targets if not os.access(folder() / target.name, os.X_OK)]


def ensure(targets: Sequence[Target] = CONTROL_PLANE) -> Path:
    """Build what is missing and answer the folder. Raises BinariesMissing where that is impossible."""
    wanted = missing(targets)
    if not wanted:
        return folder()
    names = ", ".join(target.name for target in wanted)
    if os.environ.get("HAMI_E2E_BIN"):
        raise BinariesMissing(f"HAMI_E2E_BIN={folder()} lacks {names}")
    if shutil.which("go") is None:
        raise BinariesMissing(f"no Go toolchain on PATH to build {names}; install Go 1.26 or set HAMI_E2E_BIN")
    with _only_builder():
        for target in missing(targets):
            _build(target)
    _point_bin_at(folder())
    return folder()


def _build(target: Target) -> None:
    """Build one binary beside its final name and move it there, so a half-written one is never seen."""
    out = folder() / target.name
    fresh = out.with_suffix(".new")
    # The flags belong to the key of Go's build cache: without -trimpath everything compiles again.
    command = ["go", "build", "-trimpath", "-ldflags", link_flags(target), "-o", str(fresh), target.package]
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": "-buildvcs=false",
    }
    started = time.monotonic()
    _say(f"building {target.name} ...")
    subprocess.run(command, cwd=target.module, env=environment, check=True, stdin=subprocess.DEVNULL)
    fresh.rename(out)
    _say(f"  {target.name}: {time.monotonic() - started:.0f} s, {out.stat().st_size / 1e6:.0f} MB")


@contextmanager
def _only_builder() -> Iterator[None]:
    """Two builds at once would take twice as long each and race for the same names."""
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _point_bin_at(built: Path) -> None:
    """Keep `bin` beside the versions as a link to the one built last, for people and other tests."""
    link = cache_root() / "bin"
    fresh = cache_root() / f".bin.{os.getpid()}"
    fresh.symlink_to(built.name)
    fresh.rename(link)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main() -> int:
    """Build the named binaries, by default all, and print their folder."""
    parser = argparse.ArgumentParser(description="Build the control plane of the acceptance tests.")
    parser.add_argument("names", nargs="*", choices=[*TARGETS, []], help="default: all")
    names = parser.parse_args().names
    try:
        built = ensure([TARGETS[name] for name in names] or list(TARGETS.values()))
    except BinariesMissing as problem:
        _say(str(problem))
        # Outside CI the tests skip themselves with the same words.
        return 1 if os.environ.get("CI") else 0
    _say(f"control plane {kubernetes_version()} in {built}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
