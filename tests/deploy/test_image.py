"""What the image holds is enough: its processes start from what is copied, with the packages that are pinned for it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.core import management

from tests import pinned
from tests.deploy import manifests
from tests.deploy.manifests import DEPLOY, ROOT

DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
COMMANDS = {
    tuple(one["command"])
    for work in manifests.workloads(manifests.committed())
    for one in manifests.containers(work)
    if one["image"] == "hami-platform"
}


def copied() -> list[str]:
    """What comes from the repository."""
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    return [word for line in lines for word in line.split()]


def test_everything_that_is_copied_exists_and_is_let_through() -> None:
    let_through = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().split() if line[0] == "!"}
    assert set(copied()) == let_through
    assert all((ROOT / one).exists() for one in copied())


def test_every_command_of_a_container_is_one_of_the_image() -> None:
    for command in COMMANDS:
        match command:
            case ("python", "manage.py", name, *_):
                assert name in management.get_commands()
            case ("python", "-m", module, *_):
                assert importlib.util.find_spec(f"{module}.__main__") is not None
            case ("celery", "-A", "hami_platform", ("worker" | "beat"), *_):
                assert re.search(r"^celery==", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
            case _:
                raise AssertionError(f"what does {command} start?")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the image's is filled with."""
    folder = tmp_path_factory.mktemp("image")
    ignored = shutil.ignore_patterns("__pycache__")
    for one in copied():
        source = ROOT / one
        if source.is_dir():
            shutil.copytree(source, folder / one, ignore=ignored)
        else:
            shutil.copy(source, folder / one)
    return folder


@pytest.mark.parametrize(
    "start",
    [
        ("manage.py", "check"),
        ("manage.py", "collectstatic", "--no-input", "-v0"),
        ("-c", "import hami_platform.wsgi, hami_platform.listeners, hami_platform.patient"),
        ("-c", "from hami_platform.celery import app; app.loader.import_default_modules(); assert app.tasks"),
        ("-c", "import deviceplugin.__main__"),
    ],
    ids=["command", "static", "listener", "worker", "agent"],
)
def test_it_starts_with_what_is_copied_and_pinned_alone(image: Path, start: tuple[str, ...], tmp_path: Path) -> None:
    done = in_image(image, tmp_path, *start)
    assert done.returncode == 0, done.stderr[-3000:]


def test_what_is_not_pinned_for_the_image_cannot_be_imported_there(image: Path, tmp_path: Path) -> None:
    assert "pytest is not in the image" in in_image(image, tmp_path, "-c", "import pytest").stderr


def in_image(image: Path, state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **pinned.environ(state / "pinned"),
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "DJANGO_SETTINGS_MODULE": "hami_platform.settings",
        "HAMI_STATE_DIR": str(state),
    }
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=image, env=environment, capture_output=True, text=True, check=False)
