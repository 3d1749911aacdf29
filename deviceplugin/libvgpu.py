"""The library that holds containers to their limits, on the host: installed from the image, verified, never downgraded
without saying so.

A preload file that names nothing, or a library that is not the one, would let containers start without limits, so
everything short of certainty is a reason to refuse them. The library itself is HAMi-core's; what is known of its
version is the end of its file's name (`libvgpu.so.v2.10.0`). Must not know: containers, the API server.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import msgspec

from deviceplugin import monitor_meters
from hami_platform import logs

LIBRARY: Final = "libvgpu.so"
PRELOAD: Final = "ld.so.preload"
ORIGIN: Final = "libvgpu.so.origin"
"""Beside the library: what was installed, so that a later image can tell whether it is newer."""
CHECK_S: Final = 60.0
NEVER_S: Final = 86_400.0

ENFORCED: Final = "enforced"
COUNT_ONLY: Final = "count-only"
MISSING: Final = "missing"
UNVERIFIED: Final = "unverified"
STATES: Final = (ENFORCED, COUNT_ONLY, MISSING, UNVERIFIED)

_ELF_64: Final = b"\x7fELF\x02"
_VERSION: Final = re.compile(r"libvgpu\.so\.v?(\d+(?:\.\d+)*)")
_DRAFT: Final = ".libvgpu-"

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """root: the folder `vgpu`, the same on the host and here. source: a file of the image; None: nothing is installed.

    sha256: the only library that may be used; empty: any. replace: also by an older one, or one of unknown age.
    """

    root: Path
    source: Path | None = None
    sha256: str = ""
    replace: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """One of STATES, why it is not `enforced`, and the library's hash where it could be read."""

    state: str
    why: str = ""
    sha256: str = ""


class _Origin(msgspec.Struct, frozen=True):
    sha256: str
    version: str = ""


Signature = tuple[tuple[int, int, int, int], ...]


class Limiter(Protocol):
    """Who looks after the library. `step` is for a Loop; the rest may be asked by any thread."""

    @property
    def standing(self) -> Standing:
        """As last verified."""
        ...

    def refusal(self) -> str:
        """Why no container may start with limits now; empty: it may."""
        ...

    def step(self) -> float:
        """Install what is to be installed, and verify."""
        ...


class Unwatched:
    """Nobody does, and nothing is told of it: the cards are made up."""

    standing = Standing("")

    def refusal(self) -> str:
        """See Limiter."""
        return ""

    def step(self) -> float:
        """See Limiter."""
        return NEVER_S


class CountOnly(Unwatched):
    """Containers get no library, as was asked for."""

    standing = Standing(COUNT_ONLY)

    def step(self) -> float:
        """See Limiter."""
        _show(self.standing)
        return NEVER_S


class Library:
    """See Limiter. changed: called after the state changes."""

    def __init__(self, wanted: Wanted, changed: Callable[[], None] = lambda: None) -> None:
        self._wanted = wanted
        self._changed = changed
        self._standing = Standing(MISSING, "not looked at yet")
        self._seen: Signature = ()
        self._tried: Signature = ()

    @property
    def standing(self) -> Standing:
        """See Limiter."""
        return self._standing

    def step(self) -> float:
        """See Limiter."""
        source = self._wanted.source
        if source is not None and self._tried != (_signature(source), *self._signature()):
            try:
                self._install(source)
            except OSError as error:
                log.error("library_not_installed", path=str(error.filename), error=str(error.strerror))
            self._tried = (_signature(source), *self._signature())
        self._verify()
        return CHECK_S

    def refusal(self) -> str:
        """See Limiter. Looks again when a file has changed."""
        if self._signature() != self._seen:
            self._verify()
        return self._standing.why

    # --- verifying --------------------------------------------------------------------------------------

    def _verify(self) -> None:
        seen = self._signature()
        found = verified(self._wanted)
        before, self._standing, self._seen = self._standing, found, seen
        _show(found)
        if found != before:
            level = log.info if found.state == ENFORCED else log.error
            level("limits", state=found.state, why=found.why, sha256=found.sha256)
            self._changed()

    def _signature(self) -> Signature:
        """Changes whenever one of the two files does."""
        return tuple(_signature(self._wanted.root / name) for name in (LIBRARY, PRELOAD))

    # --- installing -------------------------------------------------------------------------------------

    def _install(self, source: Path) -> None:
        root = self._wanted.root
        root.mkdir(parents=True, exist_ok=True)
        for draft in root.glob(f"{_DRAFT}*"):
            draft.unlink()
        data = source.read_bytes()
        if why := self._unfit(data):
            log.error("library_not_installed", path=str(source), error=why)
            return
        if self._may_replace(source, hash_of(data)):
            _put(root / LIBRARY, data, 0o755)
            origin = _Origin(hash_of(data), version_text(source))
            _put(root / ORIGIN, msgspec.json.encode(origin), 0o644)
            log.info("library_installed", path=str(root / LIBRARY), version=origin.version, sha256=origin.sha256)
        if preloaded(root) != [str(root / LIBRARY)]:
            _put(root / PRELOAD, f"{root / LIBRARY}\n".encode(), 0o644)
            log.info("preload_written", path=str(root / PRELOAD))

    def _unfit(self, data: bytes) -> str:
        if not data.startswith(_ELF_64):
            return "no 64-bit ELF file"
        if self._wanted.sha256 not in ("", hash_of(data)):
            return f"its hash is {hash_of(data)}, HAMI_LIBRARY_SHA256 is {self._wanted.sha256}"
        return ""

    def _may_replace(self, source: Path, new: str) -> bool:
        """Whether the image's library takes the host's place: where there is none, or a certainly older one."""
        path = self._wanted.root / LIBRARY
        try:
            old = hash_of(path.read_bytes())
        except FileNotFoundError:
            return True
        if old == new:
            return False
        known = _origin(self._wanted.root)
        before = version_of(known.version) if known and known.sha256 == old else ()
        now = version_of(version_text(source))
        if self._wanted.replace or (before and now > before):
            return True
        log.warning(
            "library_kept",
            path=str(path),
            sha256=old,
            version=".".join(map(str, before)) or "unknown",
            image_version=".".join(map(str, now)) or "unknown",
            image_sha256=new,
            to_replace_it="set HAMI_LIBRARY_REPLACE=true",
        )
        return False


def _show(found: Standing) -> None:
    for state in STATES:
        monitor_meters.LIMITS.labels(state).set(state == found.state)


def verified(wanted: Wanted) -> Standing:
    """What the two files on the host are worth now."""
    path = wanted.root / LIBRARY
    try:
        data = path.read_bytes()
        mode = path.stat().st_mode
        lines = preloaded(wanted.root)
    except OSError as error:
        why = f"{path.name}: {error.strerror}" if error.filename == str(path) else f"{error.filename}: {error.strerror}"
        return Standing(MISSING, f"{wanted.root}: {why}: the container would run without limits")
    found = hash_of(data)
    if not data.startswith(_ELF_64):
        return Standing(UNVERIFIED, f"{path} is no 64-bit ELF file", found)
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        return Standing(UNVERIFIED, f"{path} may be written by others than its owner", found)
    if wanted.sha256 not in ("", found):
        return Standing(UNVERIFIED, f"{path} has the hash {found}, HAMI_LIBRARY_SHA256 is {wanted.sha256}", found)
    if str(path) not in lines:
        return Standing(UNVERIFIED, f"{wanted.root / PRELOAD} does not name {path}", found)
    return Standing(ENFORCED, "", found)


def preloaded(root: Path) -> list[str]:
    """The libraries that the preload file names; none where there is no file. Raises OSError for other reasons."""
    try:
        return (root / PRELOAD).read_text(encoding="utf-8", errors="replace").split()
    except FileNotFoundError:
        return []


def hash_of(data: bytes) -> str:
    """64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def version_text(source: Path) -> str:
    """`2.10.0` of `libvgpu.so.v2.10.0`, also behind a link; empty where the name says none."""
    found = _VERSION.fullmatch(source.name) or _VERSION.fullmatch(source.resolve().name)
    return found[1] if found else ""


def version_of(text: str) -> tuple[int, ...]:
    """`2.10.0` as (2, 10, 0); empty for none."""
    return tuple(int(part) for part in text.split(".")) if re.fullmatch(r"\d+(\.\d+)*", text) else ()


def _signature(path: Path) -> tuple[int, int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0, 0)
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


def _origin(root: Path) -> _Origin | None:
    try:
        return msgspec.json.decode((root / ORIGIN).read_bytes(), type=_Origin)
    except (OSError, msgspec.MsgspecError):
        return None


def _put(path: Path, data: bytes, mode: int) -> None:
    """Replace a file whole: containers that run keep the one they have mapped."""
    draft = path.with_name(f"{_DRAFT}{uuid.uuid4()}")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(file, "wb") as out:
            out.write(data)
            out.flush()
            os.fchmod(out.fileno(), mode)
            os.fsync(out.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
