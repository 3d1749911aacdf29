"""What stands in the way, and what mends it; nothing is written."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from accounting.models import Journal
from accounting.services import doctor, doctor_cluster
from accounting.services.device_config import device_config
from hami_platform import env
from hami_platform.kube import api as ports
from tests.accounting import flow, kube_objects, simulated

pytestmark = pytest.mark.django_db

NOW_S = 1_790_000_000.0
BUNDLE = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()


def facts(**read: Any) -> doctor.Facts:
    return doctor.Facts(device_config(), NOW_S, **read)


def node(
    annotations: Mapping[str, str] | None = None, *, labels: Mapping[str, str] | None = None, gpu: str = "10"
) -> dict[str, Any]:
    return {
        "metadata": {"name": "n1", "labels": labels or {}, "annotations": annotations or {}},
        "status": {"allocatable": {"nvidia.com/gpu": gpu}},
    }


def hook(**fields: Any) -> dict[str, Any]:
    made = {"name": "create.platform.hami.io", "failurePolicy": "Fail", "clientConfig": {"caBundle": BUNDLE}}
    return {"metadata": {"name": "platform-hami-io"}, "webhooks": [made | fields]}


def pod(**fields: Any) -> dict[str, Any]:
    return kube_objects.pod("p", **fields)


RUNNING: dict[str, Any] = {"node": "n1", "phase": "Running"}
LEASE = {"metadata": {"name": "n1"}, "spec": {"renewTime": "2030-01-01T00:00:00.000000Z"}}
QUOTA = {"metadata": {"name": "q", "namespace": "nlp"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "1"}}}
SCHEDULER = {
    "metadata": {"name": "hami-scheduler"},
    "spec": {"template": {"spec": {"containers": [{"image": "projecthami/hami:v2.10.0"}]}}},
}
IN_CHINA = datetime.fromtimestamp(NOW_S + 8 * 3600 - 9, UTC)
HANDSHAKE: dict[str, Any] = {"hami.io/node-handshake": f"Reported {IN_CHINA:%Y-%m-%d %H:%M:%S.5} +0800 CST"}
OLD_REGISTER: dict[str, str] = {"hami.io/node-nvidia-register": "GPU-1,10,80,100,A,0,true:"}
OTHER_SCHEDULER = pod()
OTHER_SCHEDULER["spec"]["schedulerName"] = "default-scheduler"
CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("reachable", {"unread": {"version": "refused"}}, "bad", "refused"),
    ("version", {"version": {"gitVersion": "v1.29.4"}}, "bad", "1.30"),
    ("version", {"version": {"gitVersion": "v1.34.0"}}, "odd", "1.35"),
    ("version", {"version": {"gitVersion": "v1.36.3"}}, "good", "v1.36.3"),
    ("version", {"version": {}}, "unknown", "no version"),
    ("rights", {"allowed": {"list pods": False, "patch nodes": False}}, "bad", "list pods, patch nodes"),
    ("rights", {"allowed": {"list pods": True, "watch pods": False}}, "odd", "watch pods"),
    ("rights", {"allowed": {"list pods": True}}, "good", "all 1"),
    ("gpu_nodes", {"nodes": [node(gpu="0")]}, "bad", "none of 1 nodes"),
    ("gpu_nodes", {"nodes": [node()]}, "odd", "have not registered them: n1"),
    ("gpu_nodes", {"nodes": [node({"hami.io/node-nvidia-register": "[1]"})]}, "good", "nvidia.com/gpu on 1"),
    ("registers", {"nodes": [node({"hami.io/node-nvidia-register": "[]"})]}, "odd", "without a device: n1"),
    ("generations", {"nodes": [node(OLD_REGISTER)]}, "odd", "colons"),
    ("vendors", {"nodes": [node({"hami.io/node-acme-register": "[]"})]}, "bad", "hami.io/node-acme-register"),
    ("webhook", {}, "bad", "not configured"),
    ("webhook", {"unread": {"webhooks": "forbidden"}}, "unknown", "forbidden"),
    ("webhook", {"webhooks": [hook()]}, "good", "failing closed"),
    ("webhook", {"webhooks": [hook(failurePolicy="Ignore")]}, "odd", "failurePolicy"),
    ("webhook", {"webhooks": [hook(clientConfig={})]}, "bad", "no authority"),
    ("webhook", {"webhooks": [hook(clientConfig={"caBundle": "!"})]}, "bad", "no certificate"),
    ("webhook_order", {"webhooks": [hook()]}, "good", "no webhook"),
    ("webhook_order", {"webhooks": [{"metadata": {"name": "hami-webhook"}, "webhooks": []}]}, "odd", "hami-webhook"),
    ("scheduler_names", {"pods": [OTHER_SCHEDULER]}, "odd", "nlp/p"),
    ("bypassed", {"pods": [pod(**RUNNING)]}, "bad", "nlp/p"),
    ("bypassed", {"pods": [pod(**RUNNING | {"phase": "Succeeded"})]}, "good", "every pod"),
    ("bypassed", {"pods": [pod(**RUNNING, annotations={"hami.io/vgpu-devices-allocated": "x"})]}, "good", "every pod"),
    ("locks", {"nodes": [node({"hami.io/mutex.lock": "2026-01-01T00:00:00Z,nlp,p"})]}, "odd", "n1"),
    ("locks", {"nodes": [node({"hami.io/mutex.lock": "junk"})]}, "odd", "n1"),
    ("clocks", {"node_leases": [LEASE]}, "odd", "n1"),
    ("native_quotas", {"quotas": [QUOTA]}, "good", "nlp/q"),
    ("hami", {"deployments": [SCHEDULER]}, "odd", "v2.10.0"),
    ("plugins", {"nodes": [node(HANDSHAKE, labels={doctor_cluster.AGENT: "1"})]}, "bad", "n1"),
]  # fmt: skip


@pytest.mark.parametrize("name, read, verdict, text", CASES)
def test_each_check(name: str, read: dict[str, Any], verdict: str, text: str) -> None:
    found = getattr(doctor_cluster, name)(facts(**read))
    assert (found[0], text in str(found[1])) == (verdict, True), found
    assert found[2] or verdict != "bad", "a red line says what mends it"


def test_a_workers_account_need_not_watch() -> None:
    """Its own rights list; another process's account that may not watch is worth a look."""
    read = facts(allowed={"list pods": True, "watch pods": False})
    with env.override(role="worker"):
        assert doctor_cluster.rights(read)[0] == "good"
    assert doctor_cluster.rights(read)[0] == "odd"


class Recorded:
    """The client, and what was asked of it."""

    def __init__(self, api: ports.Api) -> None:
        self._api = api
        self.asked: list[tuple[str, str]] = []

    def send(self, call: Any, **options: Any) -> Any:
        self.asked.append((call.method, call.path))
        return self._api.send(call, **options)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[simulated.World]:
    with simulated.world(tmp_path) as made:
        yield made


def test_a_whole_examination_reads_and_never_writes(world: simulated.World) -> None:
    world.node("n1")
    flow.cluster()
    before = Journal.objects.count()
    recorded: Any = Recorded(world.api)
    found = doctor.examine(recorded, config=device_config(), now_s=NOW_S)
    assert len(found) >= 20
    assert not [one for one in found if "the check failed" in one.text]
    assert {method for method, path in recorded.asked if not path.endswith("selfsubjectaccessreviews")} == {"GET"}
    assert Journal.objects.count() == before
    by_name = {one.name: one for one in found}
    assert by_name["GPU nodes"].verdict in ("good", "odd")
    assert by_name["watcher"].verdict == "bad"


def test_what_is_away_is_said_and_ends_nothing(world: simulated.World) -> None:
    world.server.stop()
    found = doctor.examine(world.api, config=device_config(), now_s=NOW_S)
    assert found[0].verdict == "bad"
    assert len(found) >= 20


def test_the_command_says_it_by_exit_code_and_as_json(world: simulated.World) -> None:
    text = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", "--json", stdout=text)
    assert ended.value.code == 1
    told = json.loads(text.getvalue())
    assert told["verdict"] == "bad"
    assert all(one["mend"] for one in told["checks"] if one["verdict"] == "bad")
