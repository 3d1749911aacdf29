"""Fixtures of the agent's tests."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hami_platform.simulator.apiserver import ApiServer
from tests.deviceplugin import nvml_stub
from tests.deviceplugin.driver import Driver
from tests.deviceplugin.nvml_stub import Gpu
from tests.deviceplugin.process import Rig
from tests.deviceplugin.web import Web


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder for unix sockets, whose paths may have 107 characters only: pytest's own would be too long."""
    with tempfile.TemporaryDirectory(prefix="dp") as folder:
        yield Path(folder)


@pytest.fixture
def light() -> Iterator[Path]:
    """A folder in memory where there is such a thing: for thousands of directories."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def rig(tmp_path: Path, sockets: Path) -> Iterator[Rig]:
    with contextlib.ExitStack() as stack:
        web = Web()
        stack.callback(web.close)
        made = Rig(tmp_path, sockets, stack.enter_context(ApiServer()), web)
        stack.callback(made.close)
        made.set_up()
        yield made


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    """A function from cards to the driver that shows them; this process's bindings use it until the test ends."""
    scenario = tmp_path / "scenario"

    def made(*gpus: Gpu) -> Driver:
        return Driver(scenario, *gpus)

    with nvml_stub.loaded(scenario):
        yield made
