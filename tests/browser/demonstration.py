"""The demonstration as a person has it: `python -m hami_platform.demo` as processes, and a browser that signed in.

One for all tests of a session. With DEMO_FOLDER set to the folder of one that runs already, that one is used.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from hami_platform.demo import ports

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_S = 300
FIRST_PORT = 21_000


@dataclass(frozen=True)
class Demonstration:
    """One that runs. url: the console; api_url: the simulated API server."""

    url: str
    api_url: str
    environ: dict[str, str]

    def manage(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
        """What a management command prints. Fails on an exit code that is not one of these."""
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environ, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode in codes, done.stderr[-2000:]
        assert done.stdout, done.stderr[-2000:]
        return done.stdout

    def sign_in_path(self, person: str = "admin") -> str:
        """A path that signs this person in once."""
        return urllib.parse.urlsplit(self.manage("login_link", person).strip()).path

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        """As the API server has them."""
        found: list[dict[str, Any]] = self._api("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        return found

    def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        """One pod, or none of this name."""
        return next((one for one in self.pods(namespace) if one["metadata"]["name"] == name), None)

    def pod_delete(self, namespace: str, name: str) -> None:
        """As kubectl does; who keeps the pod makes it again."""
        self._api("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}")

    def _api(self, method: str, path: str) -> dict[str, Any]:
        asked = urllib.request.Request(self.api_url + path, method=method)  # noqa: S310  (our own)
        with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
        return found


@contextlib.contextmanager
def running(folder: pathlib.Path) -> Iterator[Demonstration]:
    """Start one in a new folder, wait until all its pods are there, and stop it afterwards."""
    if there := os.environ.get("DEMO_FOLDER"):
        yield _attached(pathlib.Path(there))
        return
    log = folder.with_suffix(".log")
    first = ports.choose(FIRST_PORT + os.getpid() % 5000 * 8).web
    command = [sys.executable, "-u", "-m", "hami_platform.demo", "--keep", str(folder), "--port", str(first)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HAMI_")}
    with log.open("wb") as said:
        child = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=said, stderr=said)
        try:
            _wait(child, log)
            yield _attached(folder)
        finally:
            child.send_signal(signal.SIGINT)
            child.wait(timeout=120)


def until(done: Any, what: str, within_s: float) -> float:
    """Wait until it is so; after how many seconds it was."""
    began = time.monotonic()
    while not done():
        assert time.monotonic() - began < within_s, f"{what}: not within {within_s} s"
        time.sleep(0.1)
    return time.monotonic() - began


def _wait(child: subprocess.Popen[bytes], log: pathlib.Path) -> None:
    """Until it says what to try next."""
    end = time.monotonic() + START_S
    while time.monotonic() < end and child.poll() is None:
        if "What to try next" in log.read_text():
            return
        time.sleep(0.2)
    pytest.fail(f"the demonstration did not start: {log.read_text()[-2000:]}")


def _attached(folder: pathlib.Path) -> Demonstration:
    """By the settings that it keeps in its folder."""
    lines = (folder / "demo.env").read_text(encoding="utf-8").splitlines()
    settings = dict(shlex.split(line)[1].split("=", 1) for line in lines if line.startswith("export "))
    foreign = {name: value for name, value in os.environ.items() if not name.startswith("HAMI_")}
    environ = {**foreign, **settings, "DJANGO_SETTINGS_MODULE": "hami_platform.settings", "PYTHONPATH": str(ROOT)}
    api = json.loads((folder / "kubeconfig").read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"]
    return Demonstration(f"http://{settings['HAMI_WEB_BIND']}", api, environ)
