"""The signing key of an embedded installation: made once, kept in its state folder, readable by its owner only."""

from __future__ import annotations

import os
import pathlib
import secrets
import tempfile


def kept_in(folder: pathlib.Path) -> str:
    """The key in `folder`, made at the first call. Two processes that start together agree on one."""
    file = folder / "secret-key"
    if not file.exists():
        descriptor, name = tempfile.mkstemp(dir=folder)
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(secrets.token_urlsafe(50))
        try:
            os.link(name, file)  # unlike rename, fails when another process was first
        except FileExistsError:
            pass
        finally:
            os.unlink(name)
    return file.read_text(encoding="utf-8")
