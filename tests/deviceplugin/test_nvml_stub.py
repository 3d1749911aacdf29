"""The stub library behind the real bindings: what the tests of the agent build on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from tests.deviceplugin import nvml_stub
from tests.deviceplugin.builders import GPU_A, GPU_B
from tests.deviceplugin.nvml_stub import Gpu


@pytest.fixture
def scenario(tmp_path: Path) -> Iterator[Path]:
    path = nvml_stub.write(tmp_path / "scenario", Gpu(GPU_A), Gpu(GPU_B))
    with nvml_stub.loaded(path):
        pynvml.nvmlInit()
        yield path
        pynvml.nvmlShutdown()


def test_the_bindings_read_the_cards_of_the_scenario_and_see_it_change(scenario: Path) -> None:
    assert pynvml.nvmlDeviceGetCount() == 2
    handle = pynvml.nvmlDeviceGetHandleByIndex(1)
    assert pynvml.nvmlDeviceGetUUID(handle) == GPU_B
    assert pynvml.nvmlDeviceGetMemoryInfo(handle).total == 40960 << 20
    assert pynvml.nvmlDeviceGetPciInfo(handle).busId == "00000000:11:00.0"
    nvml_stub.write(scenario, Gpu(GPU_A), Gpu(GPU_B, more=["process 7 512 30 10", "temperature 71 90 95", "numa 1"]))
    assert [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)] == [7]
    assert pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU) == 71
    assert list(pynvml.nvmlDeviceGetMemoryAffinity(handle, 1, 0)) == [2]


def test_an_event_reaches_every_set_that_was_there_before_it(scenario: Path) -> None:
    sets = [pynvml.nvmlEventSetCreate() for _ in range(2)]
    for one in sets:
        pynvml.nvmlDeviceRegisterEvents(pynvml.nvmlDeviceGetHandleByIndex(0), nvml_stub.XID, one)
    nvml_stub.write(scenario, Gpu(GPU_A, more=["event 1 8 79"]), Gpu(GPU_B))
    for one in sets:
        assert pynvml.nvmlEventSetWait_v2(one, 0).eventData == 79
        with pytest.raises(pynvml.NVMLError):
            pynvml.nvmlEventSetWait_v2(one, 0)


@pytest.mark.parametrize("line", ["error nvmlDeviceGetName 15", "error * 15"])
def test_an_error_of_the_scenario_is_the_bindings_error(scenario: Path, line: str) -> None:
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    nvml_stub.write(scenario, Gpu(GPU_A, more=[line]))
    with pytest.raises(pynvml.NVMLError) as raised:
        pynvml.nvmlDeviceGetName(handle)
    assert raised.value.value == pynvml.NVML_ERROR_GPU_IS_LOST


def test_another_process_finds_the_library_by_its_path(scenario: Path) -> None:
    program = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())"
    environ = {**os.environ, **nvml_stub.environ(scenario)}
    assert subprocess.check_output([sys.executable, "-c", program], env=environ, text=True) == "2\n"


def test_without_a_scenario_there_is_no_driver(tmp_path: Path) -> None:
    with nvml_stub.loaded(tmp_path / "none"), pytest.raises(pynvml.NVMLError) as raised:
        pynvml.nvmlInit()
    assert raised.value.value == pynvml.NVML_ERROR_DRIVER_NOT_LOADED
