"""What is explained and simulated is what live decisions do, and asking writes nothing.

Law 11 over the services: `/filter` and admission on the same state. The same numbers stand in page, REST and command.
"""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient

from accounting import live_view, meters, models
from accounting.services import devices, namespaces, quotas, scenarios, simulations, what_if
from accounting.services.errors import InvalidInput
from hami_platform.domain import explain
from hami_platform.domain import what_if as domain
from hami_platform.domain.quota import Limits
from tests.accounting import flow, kube_objects, rows
from tests.accounting.rows import Given
from tests.accounting.what_if_equipment import MANIFEST, WHY, client_of, full, url
from tests.builders import device

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> APIClient:
    return client_of(models.User.objects.create_superuser("root"))


# -- Law 11: the live decision


@st.composite
def pods_and_limits(draw: st.DrawFn) -> tuple[list[tuple[int, int, int]], str, dict[str, int | None]]:
    asks = draw(
        st.lists(
            st.tuples(st.sampled_from((1, 1, 2)), st.sampled_from((2000, 9000, 14000)), st.sampled_from((0, 30, 100))),
            min_size=1,
            max_size=5,
        )
    )
    mode = draw(st.sampled_from(("enforce", "wait", "warn", "observe")))
    bound = st.none() | st.sampled_from((0, 1, 2, 20000))
    return asks, mode, {"devices": draw(bound), "memory_mib": draw(st.none() | st.sampled_from((4000, 18000)))}


@given(case=pods_and_limits())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_law_11_the_answer_is_what_admission_and_filter_do_next(
    case: tuple[list[tuple[int, int, int]], str, dict[str, int | None]],
) -> None:
    asks, mode, limits = case
    with transaction.atomic():
        live_view.forget()
        flow.cluster(kube_objects.node("n1", device("GPU-n1-0"), device("GPU-n1-1", index=1)), kube_objects.node("n2"))
        flow.limit(mode=mode, **limits)  # type: ignore[arg-type]
        for number, (count, mem, cores) in enumerate(asks):
            _compare(number, count, mem, cores)
        transaction.set_rollback(True)
    live_view.forget()


def _compare(number: int, count: int, mem: int, cores: int) -> None:
    pod = kube_objects.pod(f"p{number}", kube_objects.container(gpu=count, mem=mem, cores=cores))
    submitted = simulations.from_object(pod)
    assert submitted.ask is not None
    said = what_if.explain_ask(live_view.live().refresh(), submitted.ask)
    dry = flow.admit(pod, dry_run=True)
    answer = flow.admit(pod)
    assert (dry.granted, dry.gated, dry.excess) == (answer.granted, answer.gated, answer.excess)
    if not answer.granted or answer.gated:
        assert said.verdict in (explain.Verdict.BLOCKED_BY_QUOTA, explain.Verdict.NEVER_FITS)
        assert said.excess == answer.excess
        return
    live = flow.filter_(pod)
    assert (said.placement.node if said.placement else "") == live.node
    if live.decision is not None and live.decision.placement is not None:
        assert said.placement is not None
        assert said.placement.shares == live.decision.placement.shares


def test_what_a_fix_says_happens_when_it_is_done() -> None:
    """Through the services: the quota raised, the device uncordoned, and the pod is placed where it was said."""
    flow.cluster()
    flow.limit(mode="wait", memory_mib=1000)
    pod = kube_objects.pod(mem=4000)
    flow.admit(pod)
    flow.show(pod)
    devices.device_edit(node="n1", vendor="NVIDIA", uuid="GPU-n1", cordoned=True, **WHY)
    view = live_view.live().refresh()
    row = view.pod("uid-p1")
    assert row is not None
    found = what_if.explain_pod(view, row)
    fix = next(one for one in found.fixes if {step.kind.value for step in one.steps} == {"quota", "cordon"})
    for step in fix.steps:
        if step.kind.value == "quota":
            quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=step.value), **WHY)
        else:
            node, vendor, uuid = step.target
            devices.device_edit(node=node, vendor=vendor, uuid=uuid, cordoned=False, **WHY)
    assert flow.filter_(pod).node == fix.placement.node


# -- Nothing is written


def writes(found: CaptureQueriesContext) -> list[str]:
    return [one["sql"] for one in found.captured_queries if not one["sql"].startswith("SELECT")]


def test_asking_writes_nothing(root: APIClient) -> None:
    full()
    root.get(url("cluster"))  # what a token's first use writes
    changes = [
        {"kind": "quota", "namespace": "nlp", "limits": {"memory_mib": 0}},
        {"kind": "nodes", "like": "n1", "count": 3},
        {"kind": "cordon", "node": "n1"},
        {"kind": "drain", "node": "n1"},
    ]
    before = models.Journal.objects.count()
    view = live_view.live().refresh()
    with CaptureQueriesContext(connection) as caught:
        submitted = simulations.from_text(MANIFEST)
        simulations.simulation(view, submitted, changes, copies=3)  # type: ignore[arg-type]
        row = view.pod("uid-train")
        assert row is not None
        what_if.explain_pod(view, row)
    assert writes(caught) == []
    assert len(caught.captured_queries) <= 3  # the cluster; what memory the devices have, for limits in bytes
    for answer in (
        root.get(url("pod-explain", "uid-train")),
        root.post(url("simulate"), {"manifest": MANIFEST, "changes": changes}, format="json"),
    ):
        assert answer.status_code == 200, answer.content
    assert models.Journal.objects.count() == before
    assert live_view.live().refresh() is view


# -- The same numbers everywhere


def sample(text: str, name: str, label: str = "") -> float:
    """The one sample of this name whose labels hold the text."""
    lines = [line for line in text.splitlines() if re.match(rf"{name}(\{{|\s)", line) and label in line]
    assert len(lines) == 1, lines
    return float(lines[0].rsplit(" ", 1)[1])


def test_page_rest_and_command_say_the_same_at_the_same_revision(root: APIClient, client: Client) -> None:
    full()
    rest = root.get(url("pod-explain", "uid-train")).json()
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("why", "nlp/train", "--json", stdout=out)
    assert ended.value.code == 1
    command = json.loads(out.getvalue())
    for data in (rest, command):
        data.pop("evaluated_at"), data.pop("age_s")
        for fix in data["fixes"]:
            for step in fix["steps"]:
                step.pop("may")
    assert rest == command
    assert rest["headline"] == "Needs 8000 MiB on a device; the most that is free is 4576 MiB, on n1."
    assert rest["revision"] == live_view.live().refresh().clock.revision

    client.force_login(models.User.objects.get(username="root"))
    page = client.get(reverse("console:pod", args=["uid-train"])).content.decode().replace("\u202f", "")
    page = re.sub(r"\s+", " ", page)
    assert rest["headline"] in page
    for fix in rest["fixes"]:
        assert fix["effect"] in page
        assert all(step["action"].replace("'", "&#x27;") in page for step in fix["steps"])
    card = rest["nodes"][0]["devices"][0]
    metrics = "\n".join(meters.of_cluster())
    assert sample(metrics, "hami_platform_ledger_revision") == rest["revision"]
    assert sample(metrics, "hami_gpu_memory_limit_bytes", card["uuid"]) == card["memory_mib"] << 20
    assert sample(metrics, "hami_gpu_memory_allocated_bytes", card["uuid"]) == (
        card["memory_mib"] - card["free_mib"] << 20
    )
    assert sample(metrics, "hami_gpu_shared_count", card["uuid"]) == card["slots"] - card["free_slots"]
    assert f"{card['free_mib']} of {card['memory_mib']} MiB free, needs {card['need_mib']}" in page
    assert f"at revision {rest['revision']}" in page


# -- Command line


def run(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    try:
        call_command(*arguments, stdout=out)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue()
    except CommandError as refused:
        return refused.returncode, str(refused)
    return 0, out.getvalue()


def test_why_tells_a_person_and_a_script() -> None:
    full()
    code, text = run("why", "train", "-n", "nlp")
    assert code == 1
    for part in (
        "nlp/train · waiting · asks 1 × 8000 MiB · 20 % of cores NVIDIA",
        "NO FIT NOW: Needs 8000 MiB on a device; the most that is free is 4576 MiB, on n1.",
        "✓ quota     No limit stands in its way.",
        "✕ 0 GPU-n1-0  4576 of 24576 MiB free, needs 8000",
        "1. Ask for 4576 MiB a device instead of 8000. (owner)",
        "nvidia.com/gpumem: 4576",
    ):
        assert part in text, (part, text)
    assert run("why", "uid-user") == (0, run("why", "cv/user")[1])
    assert run("why", "nobody")[0] == 2
    rows.pod("train", namespace="cv", state="waiting", shares=(), uid="uid-other")
    assert run("why", "train")[0] == 2


def test_simulate_exits_by_the_answer(tmp_path: Any) -> None:
    full()
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(MANIFEST)
    assert run("simulate", str(manifest))[0] == 0
    code, text = run("simulate", "--memory", "9000", "-n", "cv")
    assert (code, "NO FIT NOW" in text) == (1, True)
    assert run("simulate", "--memory", "9000", "-n", "cv", "--add-nodes", "1:n1", "--copies", "2")[0] == 0
    assert json.loads(run("simulate", "--memory", "4000", "--json")[1])["fits"]
    for wrong in (
        (), (str(tmp_path / "none"),), (str(manifest), "--memory", "1"), ("--add-nodes", "n1"), ("--quota", "nlp"),
        ("--quota", "nlp/default:devices=x"), ("--memory", "1", "--copies", "0"), ("--drain", "nowhere"),
    ):  # fmt: skip
        assert run("simulate", *wrong)[0] == 2, wrong


def test_simulate_says_what_a_change_strands() -> None:
    rows.node(count=1)
    namespaces.namespace_save(name="nlp", mode="wait", **WHY)
    rows.pod("held", shares=[Given(memory_mib=6000)])
    rows.pod("train", state="waiting", shares=(), asks=rows.requests.DeviceRequest("NVIDIA", 1, 2000, None, 0))
    code, text = run("simulate", "--quota", "nlp/default:memory_mib=4000")
    assert code == 1
    assert "nlp/train" in text
    assert "nlp/default: 6000 of 4000 memory_mib used, over by 2000" in text
    code, text = run("simulate", "--quota", "nlp/default:memory_mib=9000")
    assert (code, "No pod of today is affected." in text) == (0, True)
    assert run("simulate", "--cordon", "GPU-n1-0")[0] == 1
    assert run("simulate", "--drain", "n1")[0] == 1
    assert run("simulate", "--uncordon", "node:n1")[0] == 0


# -- Order


def test_a_scenario_is_read_on_top_of_those_before() -> None:
    full()
    view = live_view.live().refresh()
    both = [{"kind": "nodes", "like": "n1", "count": 1, "name": "x"}, {"kind": "cordon", "node": "x-1"}]
    found = scenarios.scenario_of(view, both)  # type: ignore[arg-type]
    assert found.changes.nodes["x-1"] is not None
    assert all(one.cordoned for one in found.changes.nodes["x-1"].devices)
    with pytest.raises(InvalidInput):
        scenarios.scenario_of(view, [{"kind": "cordon", "node": "x-1"}])


def test_the_queue_is_in_the_order_of_waking() -> None:
    full()
    rows.pod("urgent", state="waiting", shares=(), priority=5)
    assert [row.name for row in domain.waiting(live_view.live().refresh())] == ["urgent", "train"]
