"""The parts of deploy/ that are made from the vendors' declarations: the webhook's configuration and the resources
that kube-scheduler leaves to the extender.

`python -m scripts.manifests` writes them; `--check` says whether they are current. Must not know: any other manifest.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
NAMESPACE = "hami-system"
HAMI_PLUGIN = "system:serviceaccount:kube-system:hami-device-plugin"
SCHEDULER = DEPLOY / "base" / "kube-scheduler.yaml"
WEBHOOK = DEPLOY / "base" / "webhook-configuration.yaml"
WEBHOOK_HAMI = DEPLOY / "components" / "hami-plugin" / "webhook-configuration.yaml"
COMMAND = ("webhook_config", "--service", "hami-platform-webhook", "--namespace", NAMESPACE, "--no-ca")
_HEADING = "    managedResources:\n"


def webhook(writers: str = "") -> str:
    """What the product's own command prints for an installation in our namespace, with a heading."""
    setting = f"HAMI_OWNED_KEY_WRITERS={writers} " if writers else ""
    heading = f"# Made by `{setting}HAMI_POD_NAMESPACE={NAMESPACE} manage.py {' '.join(COMMAND)}`: run make docs.\n"
    return heading + _manage(*COMMAND, HAMI_OWNED_KEY_WRITERS=writers, HAMI_POD_NAMESPACE=NAMESPACE)


def scheduler() -> str:
    """The committed scheduler configuration, with every resource that a vendor declares."""
    code = "from accounting.services.device_config import device_config as c; print(*c().resource_names, sep='\\n')"
    names = sorted(_manage("shell", "--no-imports", "-c", code).split())
    before, heading, _ = SCHEDULER.read_text(encoding="utf-8").partition(_HEADING)
    return before + heading + "".join(f"      - name: {name}\n        ignoredByScheduler: true\n" for name in names)


def files() -> dict[pathlib.Path, str]:
    """Every made file and what it should hold."""
    return {SCHEDULER: scheduler(), WEBHOOK: webhook(), WEBHOOK_HAMI: webhook(HAMI_PLUGIN)}


def _manage(*arguments: str, **variables: str) -> str:
    """The output of a management command under default settings and these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HAMI_")}
    with tempfile.TemporaryDirectory() as state:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env={**kept, "DJANGO_SETTINGS_MODULE": "hami_platform.settings", "HAMI_STATE_DIR": state, **variables},
            capture_output=True,
            text=True,
            check=True,
        )
    return done.stdout


def main(arguments: list[str]) -> int:
    """Write, or with --check only tell. 1: a file is not current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args(arguments).check
    stale = {path: text for path, text in files().items() if not path.is_file() or path.read_text("utf-8") != text}
    for path, text in stale.items():
        if check:
            sys.stderr.write(f"{path.relative_to(ROOT)} is not current: run make docs\n")
        else:
            path.write_text(text, encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
