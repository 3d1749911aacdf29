"""The limiting library on the host: installed whole, verified, never replaced by an older one unasked."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from deviceplugin import libvgpu
from deviceplugin.libvgpu import Library, Wanted

OLD = b"\x7fELF\x02 old"
NEW = b"\x7fELF\x02 new"


class Host:
    """The folder `vgpu` of a node, and an image with a library."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "host" / "vgpu"
        self.image = folder / "image"
        self.image.mkdir()
        self.wanted = Wanted(self.root)
        self.changes = 0

    @property
    def library(self) -> Path:
        return self.root / "libvgpu.so"

    def has(self, data: bytes = OLD, preload: str | None = None) -> None:
        """What somebody else put there."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.library.write_bytes(data)
        self.library.chmod(0o755)
        (self.root / "ld.so.preload").write_text(f"{self.library}\n" if preload is None else preload)

    def made(self, data: bytes | None = None, name: str = "libvgpu.so", **wanted: object) -> Library:
        """A library of the image with this content, or none, after its first step."""
        source = self.image / name if data is not None else None
        if source is not None and data is not None:
            source.write_bytes(data)
        self.wanted = replace(self.wanted, source=source, **wanted)  # type: ignore[arg-type]
        found = Library(self.wanted, self.changed)
        found.step()
        return found

    def changed(self) -> None:
        self.changes += 1


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_it_is_installed_with_its_preload_file(host: Host) -> None:
    found = host.made(NEW, "libvgpu.so.v2.10.0")
    assert host.library.read_bytes() == NEW
    assert host.library.stat().st_mode & 0o777 == 0o755
    assert (host.root / "ld.so.preload").read_text() == f"{host.library}\n"
    assert (found.standing.state, found.refusal()) == ("enforced", "")
    assert found.standing.sha256 == libvgpu.hash_of(NEW)
    assert sorted(path.name for path in host.root.iterdir()) == ["ld.so.preload", "libvgpu.so", "libvgpu.so.origin"]


def test_what_hami_installed_is_verified_and_left_alone(host: Host) -> None:
    host.has()
    before = host.library.stat()
    found = host.made()
    assert found.standing.state == "enforced"
    assert host.library.stat() == before
    assert sorted(path.name for path in host.root.iterdir()) == ["ld.so.preload", "libvgpu.so"]


def test_without_a_library_containers_are_refused_with_the_reason(host: Host) -> None:
    found = host.made()
    assert found.standing.state == "missing"
    assert "libvgpu.so: No such file or directory: the container would run without limits" in found.refusal()


@pytest.mark.parametrize(
    "spoil, why",
    [
        (lambda h: h.library.write_bytes(b"text"), "is no 64-bit ELF file"),
        (lambda h: h.library.write_bytes(b""), "is no 64-bit ELF file"),
        (lambda h: h.library.chmod(0o777), "may be written by others"),
        (lambda h: (h.root / "ld.so.preload").write_text(""), "does not name"),
        (lambda h: (h.root / "ld.so.preload").write_text("/other/libvgpu.so"), "does not name"),
        (lambda h: (h.root / "ld.so.preload").unlink(), "does not name"),
        (lambda h: (h.root / "ld.so.preload").write_bytes(b"\xff\xfe"), "does not name"),
    ],
)
def test_what_would_leave_containers_without_limits_is_noticed_at_once(host: Host, spoil: object, why: str) -> None:
    host.has()
    found = host.made()
    assert found.refusal() == ""
    assert callable(spoil)
    spoil(host)
    assert why in found.refusal()
    assert found.standing.state == "unverified"
    assert host.changes == 2
    host.has()
    assert found.refusal() == ""


def test_a_pinned_hash_lets_no_other_library_through(host: Host) -> None:
    host.has(OLD)
    found = host.made(sha256=libvgpu.hash_of(NEW))
    assert "HAMI_LIBRARY_SHA256" in found.refusal()
    host.has(NEW)
    assert found.refusal() == ""
    found = host.made(OLD, "libvgpu.so.v3.0.0", replace=True)
    assert host.library.read_bytes() == NEW
    assert found.refusal() == ""


@pytest.mark.parametrize(
    "installed, image, replaced",
    [
        ("libvgpu.so.v2.9.0", "libvgpu.so.v2.10.0", True),
        ("libvgpu.so.v2.10.0", "libvgpu.so.v2.9.0", False),
        ("libvgpu.so.v2.10.0", "libvgpu.so.v2.10.0", False),
        ("libvgpu.so.v2.10.0", "libvgpu.so", False),
        ("libvgpu.so", "libvgpu.so.v2.10.0", False),
        ("libvgpu.so.v2.9", "libvgpu.so.v2.9.1", True),
    ],
)
def test_only_a_certainly_newer_library_replaces_one(host: Host, installed: str, image: str, replaced: bool) -> None:
    host.made(OLD, installed)
    with structlog.testing.capture_logs() as logged:
        found = host.made(NEW, image)
    assert host.library.read_bytes() == (NEW if replaced else OLD)
    assert found.standing.state == "enforced"
    assert ("library_kept" in [line["event"] for line in logged]) is not replaced


def test_a_library_of_unknown_origin_is_kept_until_it_is_said_otherwise(host: Host) -> None:
    host.has(OLD)
    host.made(NEW, "libvgpu.so.v9.0.0")
    assert host.library.read_bytes() == OLD
    host.made(NEW, "libvgpu.so.v9.0.0", replace=True)
    assert host.library.read_bytes() == NEW


def test_one_put_in_place_of_ours_by_hand_counts_as_unknown(host: Host) -> None:
    host.made(OLD, "libvgpu.so.v2.9.0")
    host.library.write_bytes(b"\x7fELF\x02 by hand")
    host.made(NEW, "libvgpu.so.v2.10.0")
    assert host.library.read_bytes() == b"\x7fELF\x02 by hand"


def test_it_is_replaced_whole_so_that_running_containers_keep_theirs(host: Host) -> None:
    host.made(OLD, "libvgpu.so.v1.0.0")
    with host.library.open("rb") as running:
        host.made(NEW, "libvgpu.so.v2.0.0")
        assert running.read() == OLD
        assert os.fstat(running.fileno()).st_ino != host.library.stat().st_ino


def test_what_a_crash_left_behind_is_cleared_up(host: Host) -> None:
    host.has(OLD)
    (host.root / ".libvgpu-half").write_bytes(b"half")
    host.made(NEW)
    assert not (host.root / ".libvgpu-half").exists()


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh", b"\x7fELF\x01"])
def test_what_is_no_library_is_not_installed(host: Host, data: bytes) -> None:
    assert host.made(data).standing.state == "missing"
    assert not host.library.exists()


def test_a_source_that_is_not_there_is_told_and_what_is_there_serves(host: Host) -> None:
    host.has()
    host.wanted = replace(host.wanted, source=host.image / "none.so")
    found = Library(host.wanted)
    with structlog.testing.capture_logs() as logged:
        found.step()
        found.step()
    assert [line["event"] for line in logged].count("library_not_installed") == 1
    assert found.standing.state == "enforced"


def test_count_only_never_refuses_and_unwatched_says_nothing() -> None:
    assert (libvgpu.CountOnly().standing.state, libvgpu.CountOnly().refusal()) == ("count-only", "")
    assert (libvgpu.Unwatched().standing.state, libvgpu.Unwatched().refusal()) == ("", "")
