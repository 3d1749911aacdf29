"""Container images for a node without a registry: busybox, and what keeps a pod's sandbox open, as one archive.

Must not know: who imports it.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

BUSYBOX, PAUSE = "test.local/busybox:1", "test.local/pause:1"
APPLETS = ("sh", "cat", "echo", "env", "kill", "ls", "sleep", "touch", "true")
_OCI = "application/vnd.oci.image"


def write(path: Path, busybox: Path = Path("/bin/busybox")) -> None:
    """An OCI archive of both images, which share their one layer. busybox must be a static binary."""
    blobs: dict[str, bytes] = {}
    layer = _layer(busybox.read_bytes())
    manifests = [
        _manifest(blobs, BUSYBOX, layer, {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]}),
        _manifest(blobs, PAUSE, layer, {"Entrypoint": ["/bin/busybox", "sleep", "2147483647"]}),
    ]
    with tarfile.open(path, "w") as archive:
        _add(archive, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(archive, "index.json", json.dumps({"schemaVersion": 2, "manifests": manifests}).encode())
        for digest, data in blobs.items():
            _add(archive, f"blobs/sha256/{digest}", data)


def _layer(busybox: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as files:
        for folder in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            files.addfile(entry)
        _add(files, "bin/busybox", busybox, mode=0o755)
        for applet in APPLETS:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            files.addfile(entry)
    return buffer.getvalue()


def _manifest(blobs: dict[str, bytes], name: str, layer: bytes, process: dict[str, Any]) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": process,
        "rootfs": {"type": "layers", "diff_ids": [digest]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": _blob(blobs, json.dumps(config).encode(), f"{_OCI}.config.v1+json"),
        "layers": [_blob(blobs, layer, f"{_OCI}.layer.v1.tar")],
    }
    named = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    return _blob(blobs, json.dumps(manifest).encode(), manifest["mediaType"]) | {"annotations": named}


def _blob(blobs: dict[str, bytes], data: bytes, kind: Any) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    blobs[digest] = data
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def _add(archive: tarfile.TarFile, name: str, data: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))
