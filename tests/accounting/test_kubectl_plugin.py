"""The kubectl plugin as a process of its own, against the API over a real socket."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest
from pytest_django.live_server_helper import LiveServer

from accounting import models
from accounting.services import tokens
from tests.accounting import rows
from tests.accounting.rows import Given

PLUGIN = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "kubectl-hami_quota"
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(live_server: LiveServer, transactional_db: None) -> Run:
    models.User.objects.create_superuser("root")
    _, token = tokens.token_create(user="root")
    rows.node(count=1)
    rows.pod("user", namespace="cv", shares=[Given(memory_mib=20000)])
    rows.pod("train", state="waiting", shares=(), asks=rows.requests.DeviceRequest("NVIDIA", 1, 8000, None, 20))

    def plugin(*arguments: str, text: str = "", **environ: str) -> tuple[int, str]:
        own = {"PATH": os.environ["PATH"], "HAMI_URL": live_server.url, "HAMI_TOKEN": token} | environ
        command = [sys.executable, str(PLUGIN), *arguments]
        ended = subprocess.run(command, check=False, env=own, input=text, capture_output=True, text=True, timeout=60)
        return ended.returncode, ended.stdout + ended.stderr

    return plugin


def test_it_answers_as_the_command_does(run: Run) -> None:
    code, text = run("why", "train", "-n", "nlp")
    assert code == 1, text
    assert "NO FIT NOW: Needs 8000 MiB on a device; the most that is free is 4576 MiB, on n1." in text
    assert "1. Ask for 4576 MiB a device instead of 8000. (owner) nvidia.com/gpumem: 4576" in text
    assert json.loads(run("why", "nlp/train", "--json")[1])["verdict"] == "no_fit_now"
    assert run("why", "uid-user")[0] == 0
    assert "nlp/train" in run("pending")[1]
    manifest = '{"spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}'
    assert run("simulate", "-", text=manifest)[0] == 1
    assert run("simulate", "--memory", "4000", "-n", "nlp")[0] == 0
    code, text = run("simulate", "--drain", "n1")
    assert (code, "homeless: cv/user  0/1 nodes: 1 CardCordoned" in text) == (1, True), text


def test_bad_input_is_exit_code_2(run: Run) -> None:
    for arguments, environ, said in (
        (("why", "nobody"), {}, "no live pod"),
        (("simulate",), {}, "name a file"),
        (("simulate", "-", "--memory", "1"), {}, "either a file or amounts"),
        (("simulate", "/nowhere"), {}, "No such file"),
        (("why", "train"), {"HAMI_TOKEN": ""}, "HAMI_TOKEN"),
        (("why", "train"), {"HAMI_TOKEN": "wrong"}, "error:"),
        (("why", "train"), {"HAMI_URL": "file:///etc/passwd"}, "HAMI_URL"),
    ):
        code, text = run(*arguments, **environ)
        assert (code, said in text) == (2, True), text
