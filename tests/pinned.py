"""Processes that find only the packages that are pinned for the image, as they would in it.

Packages for development lie in the same environment here, and some that we use import them where they find them: what
a process weighs, and whether it starts, would be another thing than in the image.
"""

from __future__ import annotations

import functools
import importlib.metadata
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_BLOCKER = """
import os, sys

class Blocked:
    names = frozenset(os.environ["BLOCKED"].split())

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)

sys.meta_path.insert(0, Blocked())
"""


def environ(folder: Path) -> dict[str, str]:
    """Variables for such a process; a file for it is written into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_BLOCKER, encoding="utf-8")
    return {"PYTHONPATH": str(folder), "BLOCKED": " ".join(sorted(_only_for_development()))}


@functools.cache
def _only_for_development() -> frozenset[str]:
    """Modules that no package of the image provides."""
    pins = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE)
    kept = {_plain(name) for name in pins}
    found = importlib.metadata.packages_distributions().items()
    return frozenset(module for module, owners in found if not kept & {_plain(owner) for owner in owners})


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
