"""What is written of REST is true: its commands run as they stand, its table is complete, its schema is current."""

from __future__ import annotations

import difflib
import os
import pathlib
import re
import subprocess
from typing import Any

import pytest
from django.core.management import call_command

from accounting import models
from accounting.api import urls
from accounting.services import quotas, tokens
from hami_platform.domain.quota import Limits
from tests.accounting import rows

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
STRICT = 'set -euo pipefail\ncurl() { command curl -sS --fail-with-body --max-time 30 "$@"; }\n'
"""An answer of 400 and above ends the run."""


def blocks() -> list[str]:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    return re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.django_db(transaction=True)
def test_every_command_of_the_description_runs(live_server: Any, tmp_path: pathlib.Path) -> None:
    models.User.objects.create_superuser("root")
    _, token = tokens.token_create(user="root")
    for name in ("n1", "n2"):
        rows.node(name)
    rows.pod("q1", state="waiting", shares=())
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=40960), reason="set up")
    first = models.Quota.objects.get().pk
    found = blocks()
    assert len(found) >= 5
    script = STRICT + "\n".join(found).replace("/quotas/1?", f"/quotas/{first}?")
    environment = {**os.environ, "URL": live_server.url, "TOKEN": token, "no_proxy": "*"}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "304" in done.stdout
    assert (tmp_path / "pods.csv").read_text(encoding="utf-8").startswith("uid,claim,namespace,name")
    assert models.Device.objects.get(uuid="GPU-n1-0").cordoned
    assert set(models.Quota.objects.values_list("memory_mib", flat=True)) == {40960}


def test_the_table_has_every_address() -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    paths = [str(pattern.pattern) for pattern in urls.urlpatterns]
    lists = {path.removeprefix("v1/") for path in paths if path.startswith("v1/") and "<" not in path}
    assert [name for name in sorted(lists) if f"`/{name}" not in text] == []


def test_the_committed_schema_is_current(tmp_path: pathlib.Path) -> None:
    """Else: `make docs`."""
    made = tmp_path / "openapi.yaml"
    call_command("spectacular", file=str(made), fail_on_warn=True)
    stored = (DOCS / "openapi.yaml").read_text(encoding="utf-8")
    lines = made.read_text(encoding="utf-8").splitlines()
    assert list(difflib.unified_diff(stored.splitlines(), lines, lineterm="", n=9)) == [], "run make docs"
    assert stored.startswith("openapi: 3.1")
