"""Decisions taken again: the same answer from the same inputs, and a reason where the inputs are not there."""

from __future__ import annotations

import html
import io
import json
import random
from datetime import timedelta
from typing import Any

import pytest
from django.core import management
from django.core.management.base import CommandError
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounting import ledger, live_view
from accounting.models import InputHour, InputPiece, Namespace, Trace, User
from accounting.services import (
    decision_inputs,
    device_config,
    holds,
    kept_inputs,
    namespaces,
    placements,
    quotas,
    replay,
    retention,
    seen,
)
from hami_platform import env
from hami_platform.domain import place, quota
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.states import States
from scheduler_ext import traces
from tests.domain import clusters
from tests.scheduler_ext.world import World, container, pod

Obj = dict[str, Any]


def again(trace: Trace) -> replay.Replay:
    return replay.replayed(trace, live_view.live().refresh())


def trace_of(made: Obj, verdict: str = "") -> Trace:
    """The pod's decision, once it is written."""
    World.flush()
    found = Trace.objects.filter(pod_uid=made["metadata"]["uid"])
    return (found.filter(verdict=verdict) if verdict else found).get()


def limit(mib: int, mode: str = "enforce") -> None:
    quotas.quota_set(namespace="nlp", limits=quota.Limits(memory_mib=mib), reason="t", actor="t")
    namespaces.namespace_save(name="nlp", mode=mode, reason="t", actor="t")


def denied_trace(verdict: str) -> Trace:
    World.flush()
    return Trace.objects.get(verdict=verdict)


@pytest.mark.ledger
def test_h62_a_placement_taken_again_is_the_same(world: World) -> None:
    made = world.placed("p")
    trace = trace_of(made)
    found = again(trace)
    assert (found.outcome, found.differences, found.hash) == ("same", (), trace.inputs_hash)
    assert found.again is not None
    assert found.again.detail["devices"] == [["main", "GPU-n1-1", 3000, 0]]
    assert (found.nodes, found.candidates) == (1, 1)


def test_h62_a_refusal_taken_again_is_the_same(world: World) -> None:
    made = world.create(pod("p", container(gpu=1, gpumem=30000)))
    world.filter(made, "n1", "nowhere")
    found = again(trace_of(made))
    assert found.outcome == "same"
    assert found.again is not None
    assert found.again.summary == "0/2 nodes: 1 CardInsufficientMemory, 1 node unregistered"
    assert found.candidates == 2


def test_a_refusal_for_quota_taken_again_is_the_same(world: World) -> None:
    limit(2000)
    made = world.create(pod("p"))
    world.filter(made, "n1", "gone")
    found = again(trace_of(made))
    assert (found.outcome, found.differences) == ("same", ())
    assert found.again is not None
    assert found.again.summary.startswith("needs 3000, free 2000 of 2000")


@pytest.mark.parametrize(
    "mib,mode,verdict,summary",
    [
        (9000, "enforce", "admitted", ""),
        (2000, "enforce", "denied", "exceeding resource quota: needs 3000, free 2000 of 2000 memory MiB"),
        (2000, "wait", "gated", "waits for quota: needs 3000"),
        (2000, "warn", "admitted", "over quota nlp/default by 1000"),
    ],
)
def test_admission_taken_again_is_the_same(world: World, mib: int, mode: str, verdict: str, summary: str) -> None:
    limit(mib, mode)
    world.admit(pod("p"))
    trace = denied_trace(verdict)
    found = again(trace)
    assert (found.outcome, found.differences) == ("same", ())
    assert trace.summary.startswith(summary)
    assert found.again is not None
    assert found.again.verdict == verdict


def test_repeats_of_a_denied_owner_are_one_decision(world: World) -> None:
    limit(2000)
    owner: Obj = {
        "ownerReferences": [{"kind": "Job", "name": "train", "uid": "u", "controller": True, "apiVersion": "v1"}]
    }
    for number in range(3):
        world.admit(pod(f"p{number}", **owner))
        World.flush()
    trace = denied_trace("denied")
    assert (trace.times, trace.namespace, trace.reason) == (3, "nlp", "ResourceQuotaNotFit")
    found = again(trace)
    assert found.changes is not None, "it would be asked about again"
    assert found.changes.found == ()


def test_a_pod_denied_for_its_text_says_that_the_text_is_not_kept(world: World) -> None:
    world.admit(pod("p", container(gpu=1, gpumem="16Gi")))
    found = again(denied_trace("denied"))
    assert (found.outcome, found.unknown) == ("unknown", "pod")


def test_dry_runs_leave_no_decision(world: World) -> None:
    world.admit(pod("p"), dryRun=True)
    World.flush()
    assert not Trace.objects.exists()


def test_a_repeated_review_leaves_no_second_decision(world: World) -> None:
    for _ in range(2):
        world.admit(pod("p"), uid="11111111-1111-4111-8111-111111111111")
        World.flush()
    assert Trace.objects.get().times == 1


def test_what_has_changed_since_is_named_by_device_and_limit(world: World) -> None:
    limit(20000)
    made = world.create(pod("p", container(gpu=1, gpumem=24576)))
    world.filter(made)
    assert again(trace_of(made)).changes is not None
    world.placed("other")
    limit(30000)
    changed = again(trace_of(made)).changes
    assert changed is not None
    named = {(one.part, one.subject, one.field): (one.then, one.now) for one in changed.found}
    assert named["nodes", "n1 GPU-n1-1", "held memory_mib"] == (0, 3000)
    assert named["limits", "nlp/default", "memory_mib"] == (20000, 30000)
    assert named["limits", "nlp/default", "used memory_mib"] == (0, 3000)


def test_its_own_devices_are_no_change(world: World) -> None:
    changed = again(trace_of(world.placed("p"))).changes
    assert changed is not None
    assert changed.found == ()


def test_a_pod_that_is_gone_is_not_compared_with_today(world: World) -> None:
    made = world.placed("p")
    trace = trace_of(made)
    world.delete("p")
    world.compare()
    found = again(trace)
    assert (found.outcome, found.changes) == ("same", None)


def test_a_choice_that_was_confirmed_on_a_newer_ledger_is_taken_again_whole(world: World) -> None:
    """Another process wrote between the choice and the Clock: the choice is looked at once more, alone."""
    world.node("n2")
    world.compare()
    made = world.create(pod("p"))
    asked = seen.from_object(made, device_config.device_config())
    old = live_view.live().refresh()
    stale = placements._decide(old, None, asked, ["n1", "n2"])
    holds.hold_add(node="n2", vendor="NVIDIA", uuid="GPU-n2-0", amounts=holds.Amounts(memory_mib=10), reason="t")
    with live_view.deciding(cause="t", gather=True) as (entry, now):
        config = device_config.device_config()
        answer = placements._confirm(entry, now, asked, ["n1", "n2"], stale, old, config)
    assert answer.chosen is stale
    uid = made["metadata"]["uid"]
    one = traces.Decided(uid, "nlp", "p", "placed", revision=1, decision=answer.decision, chosen=answer.chosen)
    traces.write([one])
    found = again(Trace.objects.get(pod_uid=uid))
    assert (found.outcome, found.candidates) == ("same", 2)


@pytest.mark.parametrize("mib", [0, 1])
def test_without_room_it_says_that_nothing_was_kept(world: World, mib: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_inputs, "PART", 2**40)  # the first decision of the hour takes all there is
    with env.override(trace_inputs_mib=mib):
        for name in ("first", "second"):
            made = world.placed(name)
            trace = trace_of(made)
    assert trace.inputs_hash == ""
    assert again(trace).unknown == ("budget" if mib else "off")
    assert trace.summary == "node n1", "the decision itself is kept"


def test_of_a_dropped_hour_it_says_so(world: World) -> None:
    trace = trace_of(world.placed("p"))
    InputHour.objects.all().delete()
    assert again(trace).unknown == "dropped"


@pytest.mark.ledger
def test_a_lost_or_damaged_piece_is_named(world: World) -> None:
    trace = trace_of(world.placed("p"))
    others = InputPiece.objects.exclude(digest=trace.inputs_hash)
    damaged = others.first()
    assert damaged is not None
    whole = damaged.body
    others.filter(pk=damaged.pk).update(body=decision_inputs.packed(b"[]"))
    assert (again(trace).unknown, again(trace).missing) == ("missing", "nodes")
    others.filter(pk=damaged.pk).update(body=whole)
    assert again(trace).outcome == "same"
    InputPiece.objects.filter(digest=trace.inputs_hash).delete()
    assert again(trace).missing == "inputs"


def test_another_answer_from_the_same_inputs_names_what_differs(world: World) -> None:
    trace = trace_of(world.placed("p"))
    trace.summary = "node n7"
    found = again(trace)
    assert found.outcome == "different"
    assert [(one.what, one.then, one.again) for one in found.differences] == [("summary", "node n7", "node n1")]


def test_a_settled_pod_had_nothing_to_decide(world: World) -> None:
    made = world.placed("p")
    assert world.bind(made) == ""
    world.filter(made)
    assert again(trace_of(made, "error")).unknown == "nothing"


@pytest.mark.ledger
def test_hours_are_dropped_by_age_and_the_oldest_above_the_budget(world: World) -> None:
    cluster, now = ledger.cluster_id(), ledger.database_time()
    sizes = {400: 1, 3: 2, 2: 3, 0: 4}
    for age, size in sizes.items():
        hour = kept_inputs.hour_of(now - timedelta(hours=age))
        row = InputHour.objects.create(cluster_id=cluster, hour=hour, size_bytes=size * kept_inputs.MIB)
        InputPiece.objects.create(hour=row, digest="d", body=b"x")
    with env.override(trace_inputs_mib=8):
        retention.retention_run()
    kept = sorted(row.size_bytes // kept_inputs.MIB for row in InputHour.objects.all())
    assert kept == [3, 4]
    with env.override(trace_inputs_mib=0):
        retention.retention_run()
    assert [row.size_bytes // kept_inputs.MIB for row in InputHour.objects.all()] == [4], "never the current one"


@pytest.mark.ledger
@pytest.mark.parametrize("seed", [1])
def test_law_13_whatever_happened_every_fresh_decision_taken_again_is_the_same(world: World, seed: int) -> None:
    """Random pods come, are placed, bound, refused, denied and go, while limits move; nothing is kept by halves."""
    dice = random.Random(seed)
    world.node("n2", cards=3)
    world.compare()
    alive: list[str] = []
    for number in range(24):
        act = dice.choice(("ask", "ask", "ask", "limit", "go", "admit"))
        if act == "limit":
            limit(dice.choice((2000, 30000, 200000)), dice.choice(("enforce", "wait", "warn")))
        elif act == "go" and alive:
            world.delete(alive.pop(dice.randrange(len(alive))))
            world.compare()
        elif act == "admit":
            world.admit(pod(f"a{number}", container(gpu=dice.randint(1, 3), gpumem=dice.choice((1000, 9000)))))
        else:
            amounts: Obj = {"gpu": dice.randint(1, 3), "gpumem": dice.choice((1000, 9000, 20000, 99999))}
            made = world.create(pod(f"p{number}", container(**amounts)))
            if world.filter(made, *dice.sample(["n1", "n2", "n3"], 2))["NodeNames"]:
                alive.append(f"p{number}")
        World.flush()
        for trace in Trace.objects.order_by("-last_at")[:1]:
            assert again(trace).outcome == "same", (act, trace, again(trace))
    assert Namespace.objects.filter(name="nlp").exists()
    assert {again(trace).outcome for trace in Trace.objects.all()} == {"same"}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(clusters.clusters(), min_size=1, max_size=3), clusters.pods(), clusters.headrooms(), st.booleans(),
    st.sampled_from(("binpack", "spread")),
)  # fmt: skip
def test_law_13_inputs_read_back_give_the_decision_and_the_hash(
    known: list[dict[str, NodeState]], request: PodRequest, headroom: quota.Headroom, some: bool, policy: str
) -> None:
    """Of several decisions spelled by one process, the last; another process would give it the same hash."""
    speller, kept, hash_ = decision_inputs.Speller(), decision_inputs.Pieces(), ""
    for nodes in known:
        asked = [*list(nodes)[: 2 if some else 9], *(["elsewhere"] if some else [])]
        decision = place.place(
            States(nodes), asked, request, headroom=headroom, defaults=place.Defaults(node_policy=policy)
        )
        hash_ = speller.spell(decision_inputs.Grounds(None, (decision,)), "", kept)

    def source(digests: Any) -> dict[str, bytes]:
        return {digest: kept[digest] for digest in digests if digest in kept}

    (choice,) = decision_inputs.inputs(hash_, source).steps
    assert isinstance(choice, decision_inputs.Choice)
    back = decision_inputs.nodes(choice, source)
    assert back == known[-1]
    candidates = decision_inputs.candidates(choice, back, source)
    same = place.place(back, candidates, choice.request, headroom=choice.headroom, defaults=choice.defaults)
    assert same.placement == decision.placement
    texts = [{name: one.text() for name, one in each.rejections.items()} for each in (same, decision)]
    assert texts[0] == texts[1]
    fresh = decision_inputs.Speller().spell(decision_inputs.Grounds(None, (same,)), "", decision_inputs.Pieces())
    assert fresh == hash_


# -- Where people ask for it


def root(world: World) -> Any:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def command(*args: str) -> tuple[int, str]:
    """(exit code, what it printed)."""
    out = io.StringIO()
    try:
        management.call_command("replay", *args, stdout=out)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue()
    except CommandError as error:
        return error.returncode, str(error)
    return 0, out.getvalue()


def test_page_rest_and_command_say_the_same(world: World) -> None:
    limit(2000)
    made = world.create(pod("p"))
    world.filter(made)
    trace = trace_of(made)
    client = root(world)
    rest = client.get(f"/api/v1/traces/{trace.pk}/replay").json()
    assert (rest["outcome"], rest["hash_again"]) == ("same", trace.inputs_hash)
    assert json.loads(command(str(trace.pk), "--json")[1]) == rest
    page = client.get(f"/decisions/{trace.pk}").content.decode()
    for text in (rest["sentence"], rest["again"]["summary"], rest["hash_again"]):
        assert html.escape(text) in page
    assert f'href="/decisions/{trace.pk}"' in client.get(f"/pods/{trace.pod_uid}").content.decode()
    assert client.get("/api/v1/traces").json()["results"][0]["id"] == trace.pk


def test_a_pod_page_has_the_decision_of_its_admission(world: World) -> None:
    answer = world.admit(pod("p"))
    World.flush()
    claim = Trace.objects.get(verdict="admitted").pod_uid
    assert answer["allowed"]
    assert "✓ admitted" in root(world).get(f"/pods/{claim}").content.decode()


def test_the_command_takes_a_pod_by_uid_or_name_and_says_by_its_exit_code(world: World) -> None:
    made = world.placed("p")
    trace = trace_of(made)
    for asked in (str(trace.pk), made["metadata"]["uid"], "nlp/p"):
        code, text = command(asked)
        assert code == 0
        assert "SAME: The same decision again, from the same inputs." in text
    InputHour.objects.all().delete()
    code, text = command("nlp/p", "--all")
    assert code == 1
    assert "UNKNOWN: What it was decided on is no longer kept" in text
    assert command("nlp/nobody")[0] == 2


def test_the_page_names_what_has_changed_and_what_is_lost(world: World) -> None:
    made = world.create(pod("p", container(gpu=1, gpumem=30000)))
    world.filter(made)
    trace, client = trace_of(made), root(world)
    world.placed("other")
    page = client.get(f"/decisions/{trace.pk}").content.decode()
    assert "<code>held memory_mib</code>" in page
    lines = b"".join(client.get(f"/decisions/{trace.pk}?format=csv&table=changes").streaming_content).decode()
    assert lines.splitlines()[0] == "part,subject,field,then,now"
    assert "nodes,n1 GPU-n1-1,held memory_mib,0,3000" in lines
    InputPiece.objects.exclude(digest=trace.inputs_hash).delete()
    assert "a piece of the nodes is lost" in client.get(f"/decisions/{trace.pk}").content.decode()
    assert client.get(f"/decisions/{trace.pk + 1000}").status_code == 404
