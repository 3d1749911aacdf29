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

from accounting import live_view, models
from accounting.services import devices, holds, namespaces, people, quotas, scenarios, simulations, what_if
from accounting.services.errors import InvalidInput
from hami_platform.domain import explain
from hami_platform.domain import what_if as domain
from hami_platform.domain.quota import Limits
from tests.accounting import flow, kube_objects, rows
from tests.accounting.rows import Given
from tests.builders import device

pytestmark = pytest.mark.django_db

WHY = {"reason": "set up", "actor": "root"}
MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: nlp}
spec:
  template:
    spec:
      containers:
      - name: main
        image: any
        resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4000}}
"""


def client_of(user: models.User, scopes: list[str] | None = None) -> APIClient:
    _, text = people.token_create(user=user.username, scopes=scopes)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


@pytest.fixture
def root() -> APIClient:
    return client_of(models.User.objects.create_superuser("root"))


def member(namespace: str, scopes: list[str] | None = None) -> APIClient:
    user, _ = models.User.objects.get_or_create(username="ann")
    people.role_grant(role="member", user="ann", namespace=namespace, **WHY)
    return client_of(user, scopes)


def url(name: str, *args: object) -> str:
    return reverse(f"api:{name}", args=args)


def full() -> None:
    """One node with one device, of which cv/user holds most; nlp/train waits, limited to 10,000 MiB."""
    rows.node(count=1)
    rows.pod("user", namespace="cv", shares=[Given(memory_mib=20000, core_percent=50)])
    rows.pod("train", state="waiting", shares=(), asks=rows.requests.DeviceRequest("NVIDIA", 1, 8000, None, 20))
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=10000), **WHY)


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
        flow.limit(mode=mode, **limits)
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
        simulations.simulation(view, submitted, changes, copies=3)
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
    assert f"{card['free_mib']} of {card['memory_mib']} MiB free, needs {card['need_mib']}" in page
    assert f"at revision {rest['revision']}" in page


# -- REST


def test_explain_needs_reach_and_hides_names_of_others() -> None:
    full()
    ann = member("nlp")
    body = ann.get(url("pod-explain", "uid-train")).json()
    assert ann.get(url("pod-explain", "uid-user")).status_code == 404
    assert "cv" not in json.dumps(body)
    (holder,) = body["nodes"][0]["devices"][0]["holders"]
    assert (holder["name"], holder["uid"], holder["memory_mib"]) == ("another namespace", "", 20000)
    waits = [step for fix in body["fixes"] for step in fix["steps"] if step["kind"] == "wait"]
    assert waits[0]["action"] == "Wait until a pod in another namespace ends: it holds 20000 MiB on n1."
    assert (waits[0]["url"], waits[0]["command"], waits[0]["may"]) == ("", "", False)


def test_explain_names_the_steps_for_who_may_do_them(root: APIClient) -> None:
    full()
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=1000), **WHY)
    devices.device_edit(node="n1", vendor="NVIDIA", uuid="GPU-n1-0", cordoned=True, **WHY)
    rows.pod("small", state="waiting", shares=(), asks=rows.requests.DeviceRequest("NVIDIA", 1, 2000, None, 0))
    steps = {
        step["kind"]: step for fix in root.get(url("pod-explain", "uid-small")).json()["fixes"] for step in fix["steps"]
    }
    quota = models.Quota.objects.get()
    assert steps["quota"]["url"] == f"/quotas/{quota.pk}?memory_mib=2000"
    assert steps["quota"]["may"]
    assert steps["cordon"]["url"].startswith("/admin/accounting/device/")
    ann = member("nlp").get(url("pod-explain", "uid-small")).json()
    assert not any(step["may"] for fix in ann["fixes"] for step in fix["steps"])


def test_a_pod_is_simulated_by_amounts_object_or_manifest(root: APIClient) -> None:
    full()
    by_amounts = {"namespace": "nlp", "ask": {"memory_mib": 4000}}
    by_object = {"pod": kube_objects.pod("x", mem=4000)}
    for body in (by_amounts, by_object, {"manifest": MANIFEST}):
        found = root.post(url("simulate"), body, format="json").json()
        assert (found["fits"], found["copies"], found["problem"]) == (True, ["n1"], "")
        assert found["explanation"]["placement"]["shares"][0]["memory_mib"] == 4000


def test_copies_say_how_many_fit(root: APIClient) -> None:
    full()
    body = {"namespace": "cv", "ask": {"memory_mib": 2000}, "copies": 5}
    found = root.post(url("simulate"), body, format="json").json()
    assert (found["fits"], len(found["copies"])) == (False, 2)


def test_a_change_says_who_starts_and_who_moves(root: APIClient) -> None:
    full()
    body = {"changes": [{"kind": "nodes", "like": "n1", "count": 1, "name": "spare"}]}
    found = root.post(url("simulate"), body, format="json").json()
    assert found["fits"] is None
    assert [(one["name"], one["node"]) for one in found["effect"]["starts"]] == [("train", "spare-1")]
    drained = body | {"changes": [*body["changes"], {"kind": "drain", "node": "n1"}]}
    effect = root.post(url("simulate"), drained, format="json").json()["effect"]
    assert [(one["name"], one["node"]) for one in effect["moves"]] == [("user", "spare-1")]
    ended = {"changes": [{"kind": "end", "pod": "uid-user"}]}
    assert root.post(url("simulate"), ended, format="json").json()["effect"]["starts_count"] == 1


def test_what_admission_refuses_is_said(root: APIClient) -> None:
    full()
    pod = kube_objects.pod("x", mem=4000)
    pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] = "16Gi"
    found = root.post(url("simulate"), {"pod": pod}, format="json").json()
    assert found["fits"] is False
    assert "MiB" in found["problem"]
    plain = root.post(url("simulate"), {"pod": {"spec": {"containers": [{"name": "a"}]}}}, format="json").json()
    assert plain["problem"].startswith("It asks for no device")


def test_a_pod_taken_from_the_cluster_is_read_as_new(root: APIClient) -> None:
    """`kubectl get pod -o yaml` carries what the scheduler wrote; none of it would be there at the next try."""
    full()
    pod = kube_objects.pod("x", mem=4000, node="n1", claim="c", annotations={"hami.io/vgpu-node": "n1"}, gated=True)
    assert root.post(url("simulate"), {"pod": pod}, format="json").json()["fits"]


def test_members_simulate_in_their_namespaces_only_with_a_token_that_reads() -> None:
    full()
    ann = member("nlp", ["read"])
    mine = {"namespace": "nlp", "ask": {"memory_mib": 4000}}
    assert ann.post(url("simulate"), mine, format="json").status_code == 200
    for body in (
        {"namespace": "cv", "ask": {"memory_mib": 4000}},
        {"changes": [{"kind": "quota", "namespace": "cv", "limits": {"devices": 1}}]},
        {"changes": [{"kind": "quota", "tenant": "labs", "limits": {"devices": 1}}]},
        {"changes": [{"kind": "end", "pod": "uid-user"}]},
        {"changes": [{"kind": "end", "pod": "uid-none"}]},
    ):
        assert ann.post(url("simulate"), body, format="json").status_code == 403, body
    drained = ann.post(url("simulate"), {"changes": [{"kind": "drain", "node": "n1"}]}, format="json").json()
    assert (drained["effect"]["homeless"], drained["effect"]["homeless_count"], drained["effect"]["hidden"]) == (
        [],
        1,
        1,
    )
    assert "cv" not in json.dumps(drained)


@pytest.mark.parametrize(
    "body, field",
    [
        ({}, ""),
        ({"manifest": "kind: Service"}, "manifest"),
        ({"manifest": "a: &a [1]\nb: [*a, *a]"}, "manifest"),
        ({"manifest": "[" * 5000}, "manifest"),
        ({"manifest": MANIFEST, "ask": {}}, "manifest"),
        ({"manifest": MANIFEST, "ask": {"devices": 2}}, "manifest"),
        ({"ask": {"memory_mib": 5, "vendor": "Nobody"}}, "vendor"),
        ({"ask": {"memory_mib": 5, "vendor": "MLU"}}, "memory_mib"),
        ({"changes": [{"kind": "magic"}]}, "kind"),
        ({"changes": [{"kind": "nodes", "count": 2}]}, "memory_mib"),
        ({"changes": [{"kind": "nodes", "count": 2, "like": "nowhere"}]}, "node"),
        ({"changes": [{"kind": "drain"}]}, "node"),
        ({"changes": [{"kind": "cordon", "uuid": "none"}]}, "uuid"),
        ({"changes": [{"kind": "quota", "namespace": "nlp"}]}, "limits"),
        ({"changes": [{"kind": "quota", "namespace": "nlp", "limits": {"gpus": 1}}]}, "limits.gpus"),
        ({"changes": [{"kind": "quota", "namespace": "nlp", "limits": {"devices": -1}}]}, "limits.devices"),
        ({"changes": [{"kind": "quota", "namespace": "nlp", "limits": {"memory_mib": 2**40}}]}, "memory_mib"),
        ({"changes": [{"kind": "quota", "namespace": "nlp", "tenant": "a", "limits": {"devices": 1}}]}, "namespace"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(root: APIClient, body: dict[str, Any], field: str) -> None:
    full()
    answer = root.post(url("simulate"), body, format="json")
    assert answer.status_code == 400, answer.content
    assert answer.json()["errors"][0]["field"] == field


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


# -- Holds and more


def test_a_hold_of_a_person_is_a_holder_and_a_fix(root: APIClient) -> None:
    rows.node(count=1)
    card = {"node": "n1", "vendor": "NVIDIA", "uuid": "GPU-n1-0"}
    hold = holds.hold_add(amounts=holds.Amounts(24000, 0, 1), **card, **WHY)
    rows.pod("train", state="waiting", shares=(), asks=rows.requests.DeviceRequest("NVIDIA", 1, 2000, None, 0))
    body = root.get(url("pod-explain", "uid-train")).json()
    assert body["nodes"][0]["devices"][0]["holders"][0]["kind"] == "hold"
    step = next(step for fix in body["fixes"] for step in fix["steps"] if step["kind"] == "hold")
    assert step["url"] == f"/admin/accounting/hold/{hold.pk}/change/"


def test_position_counts_those_that_are_woken_first(root: APIClient) -> None:
    full()
    rows.pod("urgent", state="waiting", shares=(), priority=5)
    rows.pod("other", namespace="cv", state="waiting", shares=(), priority=9)
    found = root.get(url("pod-explain", "uid-train")).json()["position"]
    assert found == {"place": 3, "of": 3, "place_in_namespace": 2, "of_namespace": 2}


def test_a_scenario_is_read_on_top_of_those_before() -> None:
    full()
    view = live_view.live().refresh()
    both = [{"kind": "nodes", "like": "n1", "count": 1, "name": "x"}, {"kind": "cordon", "node": "x-1"}]
    found = scenarios.scenario_of(view, both)
    assert found.changes.nodes["x-1"] is not None
    assert all(one.cordoned for one in found.changes.nodes["x-1"].devices)
    with pytest.raises(InvalidInput):
        scenarios.scenario_of(view, [{"kind": "cordon", "node": "x-1"}])


def test_the_queue_is_in_the_order_of_waking() -> None:
    full()
    rows.pod("urgent", state="waiting", shares=(), priority=5)
    assert [row.name for row in domain.waiting(live_view.live().refresh())] == ["urgent", "train"]
