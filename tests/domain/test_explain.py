"""What a refusal says to people: the sentence with its numbers, the checks, the devices, and changes that help.

Law 10: every fix that is offered makes the decision succeed when it is applied to a copy.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_platform.domain import ever, explain, fixes, quota
from hami_platform.domain.devices import Held
from hami_platform.domain.explain import Explanation, Verdict
from hami_platform.domain.fixes import Kind
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.place import place
from hami_platform.domain.quota import Limits, Rule, Selector
from hami_platform.domain.reasons import Reason, Rejection
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.rows import Changes, HoldRow, LockRow, NamespaceRow, QuotaRow
from hami_platform.domain.view import View
from hami_platform.domain.what_if import Ask
from tests import builders
from tests.builders import ask, pod, state, uniform_node
from tests.domain import clusters, views
from tests.domain.views import NAMESPACE, decide, view_of


def why(
    *nodes: NodeState, request: PodRequest, limits: Limits | None = None, used: int = 0, **more: object
) -> Explanation:
    view = view_of(*nodes, limits=limits, used_mib=used)
    return explain.explain(view.fold(Changes(**more)), Ask(NAMESPACE, request), decide)  # type: ignore[arg-type]


def kinds(found: Explanation) -> list[list[str]]:
    return [[step.kind.value for step in fix.steps] for fix in found.fixes]


def action(found: Explanation, kind: Kind) -> str:
    return next(str(step.action) for fix in found.fixes for step in fix.steps if step.kind is kind)


# -- Verdicts and numbers


def test_a_pod_that_fits_says_where() -> None:
    found = why(uniform_node("n1", 1), request=pod(ask()))

    assert (found.verdict, str(found.headline)) == (Verdict.FITS, "Fits now on n1: GPU-n1-0.")
    assert [check.ok for check in found.checks] == [True, True, True, None, None, None]
    assert found.nodes[0].cards[0].chosen


def test_a_refusal_says_what_is_missing_where_the_least_is_missing() -> None:
    full = uniform_node("n2", 1, used=[Held(1, 24000, 0)])
    small = uniform_node("n1", 1, memory_mib=500)

    found = why(full, small, request=pod(ask(memory_mib=1000)))

    assert str(found.headline) == "Needs 1000 MiB on a device; the most that is free is 576 MiB, on n2."
    assert found.summary == "0/2 nodes: 2 CardInsufficientMemory"
    assert found.verdict is Verdict.NO_FIT_NOW
    card = found.nodes[0].cards[0]
    assert (found.nodes[0].node, card.free_mib, card.need_mib) == ("n2", 576, 1000)
    assert card.reason is Reason.CARD_INSUFFICIENT_MEMORY
    assert card.holders[0].held.memory_mib == 24000


@pytest.mark.parametrize(
    "node",
    [
        uniform_node("n1", 1, used=[Held(1, 24000, 0)]),
        uniform_node("n1", 1, healthy=False),
        uniform_node("n1", 1, cordoned=True),
    ],
    ids=["in use", "unhealthy", "cordoned"],
)
def test_what_can_pass_is_not_never(node: NodeState) -> None:
    assert why(node, request=pod(ask(memory_mib=20000))).verdict is Verdict.NO_FIT_NOW


@pytest.mark.parametrize(
    "node, request_",
    [
        (uniform_node("n1", 1), pod(ask(memory_mib=30000))),
        (uniform_node("n1", 1), pod(ask(2))),
        (uniform_node("n1", 1, reserved_mib=100), pod(ask(memory_percent=100))),
        (uniform_node("n1", 1), pod(ask(), use_models=("H100",))),
        (uniform_node("n1", 1), pod(ask(), use_uuids=("other",))),
        (uniform_node("n1", 1), pod(ask(vendor="MLU"))),
    ],
    ids=["memory", "devices", "reserved", "model", "uuid", "vendor"],
)
def test_what_no_empty_cluster_offers_never_fits(node: NodeState, request_: PodRequest) -> None:
    assert why(node, request=request_).verdict is Verdict.NEVER_FITS


def test_never_says_what_the_largest_has() -> None:
    found = why(uniform_node("n1", 2, used=[Held(1, 24000, 0)]), request=pod(ask(memory_mib=30000)))

    assert str(found.headline) == (
        "Needs 30000 MiB on a device; the largest device here, on n1, has 24576 MiB for pods."
    )
    assert kinds(found) == [["memory"]]


def test_a_uuid_that_is_busy_may_come_free() -> None:
    busy = uniform_node("n1", 1, used=[Held(10, 0, 0)])

    assert why(busy, uniform_node("n2", 1), request=pod(ask(), use_uuids=("GPU-n1-0",))).verdict is Verdict.NO_FIT_NOW


def test_a_quota_that_refuses_is_named_with_its_numbers() -> None:
    found = why(uniform_node("n1", 1), request=pod(ask(memory_mib=4000)), limits=Limits(memory_mib=10000), used=8000)

    assert found.verdict is Verdict.BLOCKED_BY_QUOTA
    assert found.excess is not None
    assert found.excess.text() == "needs 4000, free 2000 of 10000 memory MiB, used 8000, quota nlp/default"
    assert str(found.headline) == ("Quota nlp/default: 8000 of 10000 MiB are taken; this pod asks for 4000 MiB more.")
    quota_check = found.checks[1]
    assert (quota_check.ok, quota_check.have, quota_check.need, quota_check.unit) == (False, 2000, 4000, "MiB")


def test_a_limit_below_the_request_never_fits() -> None:
    found = why(uniform_node("n1", 1), request=pod(ask(memory_mib=4000)), limits=Limits(memory_mib=3000))
    assert found.verdict is Verdict.NEVER_FITS
    assert kinds(found) == [["quota"], ["memory"]]


def test_no_node_never_fits() -> None:
    found = why(request=pod(ask()))

    assert (found.verdict, str(found.headline)) == (Verdict.NEVER_FITS, "No node is registered that could be asked.")


def test_a_mig_card_refused_for_quota_is_not_called_good() -> None:
    """The smallest instance is larger than what is asked."""
    view = view_of(builders.node("m1", builders.mig_state()), limits=Limits(memory_mib=4000))
    found = explain.explain(view, Ask(NAMESPACE, pod(ask(memory_mib=3000))), decide)
    assert found.nodes[0].reason is Reason.RESOURCE_QUOTA_NOT_FIT
    assert [card.reason for card in found.nodes[0].cards] == [Reason.RESOURCE_QUOTA_NOT_FIT]


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_sentence(reason: Reason) -> None:
    from hami_platform.domain import arithmetic, headlines

    view = view_of(uniform_node("n1", 1))
    decision = decide(view, Ask(NAMESPACE, pod(ask(2))), None).decision
    card = arithmetic.line(view, decision, "n1").cards[0]
    line = arithmetic.NodeLine("n1", reason, "1/1 word", 2, (card,))
    for never in (False, True):
        said = str(headlines.of_devices(decision, line, never=never))
        assert "n1" in said or "uuid" in said
        assert "%(" not in said


# -- Fixes


def test_less_memory_is_exactly_what_is_free() -> None:
    found = why(uniform_node("n1", 1, used=[Held(1, 24000, 0)]), request=pod(ask(memory_mib=1000)))

    assert action(found, Kind.MEMORY) == "Ask for 576 MiB a device instead of 1000."


def test_fewer_cores_and_fewer_devices_are_offered() -> None:
    busy = uniform_node("n1", 2, used=[Held(1, 0, 60), Held(1, 0, 80)])

    assert action(why(busy, request=pod(ask(core_percent=50))), Kind.CORES).startswith("Ask for 40 %")
    assert action(why(busy, request=pod(ask(2, core_percent=30))), Kind.DEVICES).startswith("Ask for 1 devices")


def test_memory_and_cores_together_where_neither_helps_alone() -> None:
    view = view_of(uniform_node("n1", 1, used=[Held(1, 20000, 60)]))
    found = explain.explain(view, Ask(NAMESPACE, pod(ask(memory_mib=8000, core_percent=80))), decide)
    assert ["memory", "cores"] in kinds(found)


def test_a_quota_is_raised_to_what_is_needed_and_no_further() -> None:
    found = why(uniform_node("n1", 1), request=pod(ask(memory_mib=4000)), limits=Limits(memory_mib=10000), used=8000)

    assert action(found, Kind.QUOTA) == "Raise nlp/default from 10000 to 12000 MiB."
    assert found.fixes[0].placement.node == "n1"


def test_two_limits_are_raised_together() -> None:
    limits = Limits(memory_mib=3000, device_memory_mib=2000)
    found = why(uniform_node("n1", 1), request=pod(ask(memory_mib=4000)), limits=limits)
    assert [step.value for step in found.fixes[0].steps] == [4000, 4000] or kinds(found)[0] == ["memory"]
    assert ["quota", "quota"] in kinds(found)


def test_a_limit_and_a_device_are_fixed_together() -> None:
    found = why(uniform_node("n1", 1, cordoned=True), request=pod(ask(memory_mib=4000)), limits=Limits(memory_mib=3000))
    assert ["quota", "cordon"] in kinds(found)


def test_a_cordoned_device_is_uncordoned() -> None:
    found = why(uniform_node("n1", 2, cordoned=True), request=pod(ask()))

    assert kinds(found) == [["cordon"]]
    assert action(found, Kind.CORDON) == "Uncordon GPU-n1-0 on n1."


def test_all_the_devices_that_are_needed_are_uncordoned_and_no_more() -> None:
    found = why(uniform_node("n1", 3, cordoned=True), request=pod(ask(2)))
    assert ["cordon", "cordon"] in kinds(found)


def test_a_hold_is_ended() -> None:
    hold = HoldRow("n1", ("NVIDIA", "GPU-n1-0"), Held(1, 24000, 0))
    found = why(uniform_node("n1", 1), request=pod(ask(memory_mib=2000)), holds={7: hold})

    assert action(found, Kind.HOLD) == "End hold 7 on GPU-n1-0."


def test_memory_kept_back_is_given_free() -> None:
    found = why(uniform_node("n1", 1, reserved_mib=20000), request=pod(ask(memory_mib=8000)))
    assert ["reserved"] in kinds(found)


def test_a_stale_lock_is_released() -> None:
    found = why(uniform_node("n1", 1), request=pod(ask()), locks={"n1": LockRow("n1", "x", stale=True)})

    assert kinds(found) == [["lock"]]
    assert found.nodes[0].reason is Reason.NODE_LOCKED


def test_a_lower_priority_pod_is_named_as_such_and_another_is_waited_for() -> None:
    view = view_of(uniform_node("n1", 1, used=[Held(1, 24000, 30)]))
    request = pod(ask(memory_mib=2000))

    higher = explain.explain(view, Ask(NAMESPACE, request, priority=10), decide)
    equal = explain.explain(view, Ask(NAMESPACE, request), decide)

    assert "of lower priority: it holds 24000 MiB and 30 % of cores on n1" in action(higher, Kind.PREEMPT)
    assert [Kind.PREEMPT.value] not in kinds(equal)
    assert action(equal, Kind.WAIT).startswith("Wait until other/")


def test_a_pod_of_the_same_scope_is_waited_for_where_quota_refuses() -> None:
    found = why(uniform_node("n1", 1), request=pod(ask(memory_mib=4000)), limits=Limits(memory_mib=10000), used=8000)
    assert action(found, Kind.WAIT) == "Wait until nlp/user ends: it takes part of quota nlp/default."


def test_a_pod_in_the_way_moves_where_there_is_room_for_it() -> None:
    busy = uniform_node("n1", 1, used=[Held(1, 4000, 0)])
    small = uniform_node("n2", 1, memory_mib=8000)
    found = why(busy, small, request=pod(ask(memory_mib=22000)))

    assert action(found, Kind.MOVE) == (
        "Delete other/holder-1 on n1: its controller makes it anew, and there is room for it on n2."
    )
    full = uniform_node("n2", 1, memory_mib=3000)
    assert ["move"] not in kinds(why(busy, full, request=pod(ask(memory_mib=22000))))


def test_a_condition_is_dropped() -> None:
    found = why(uniform_node("n1", 1), request=pod(ask(), use_models=("H100",)))

    assert kinds(found) == [["constraint"]]


def test_conditions_and_amounts_are_changed_together_and_no_condition_in_vain() -> None:
    request = pod(ask(2, memory_mib=30000), use_models=("H100",), device_policy="binpack", nouse_uuids=("GPU-x",))
    found = why(uniform_node("n1", 1), request=request)

    assert found.verdict is Verdict.NEVER_FITS
    assert str(found.fixes[0].steps[0].action) == "Accept every model: drop the annotation that chooses models."
    assert kinds(found)[0] == ["constraint", "devices", "memory"]


def test_limits_are_raised_to_what_is_needed_after_the_other_steps() -> None:
    """Eight devices' worth of memory is not asked for a pod that is told to take less of each."""
    limits = Limits(devices=1, memory_mib=20000)
    found = why(uniform_node("n1", 2), request=pod(ask(2, memory_mib=30000)), limits=limits)
    (fix,) = (one for one in found.fixes if {"quota", "memory"} <= {step.kind.value for step in one.steps})
    raised = {step.target[1]: step.value for step in fix.steps if step.kind is Kind.QUOTA}
    assert raised == {"devices": 2, "memory_mib": 2 * 24576}


def test_no_limit_is_raised_for_a_pod_that_must_shrink_anyway() -> None:
    found = why(uniform_node("n1", 1), request=pod(ask(4, memory_mib=4000)), limits=Limits(memory_mib=6000))
    assert kinds(found)[0] == ["devices"]
    assert all("quota" not in kind for kind in kinds(found))


def test_the_devices_that_annotations_choose_are_what_is_told_of() -> None:
    devices = [state(f"GPU-{n}", index=n, cordoned=n == 3) for n in range(4)]
    found = why(builders.node("n1", *devices), request=pod(ask(), use_uuids=("GPU-3",)))

    assert found.nodes[0].reason is Reason.CARD_UUID_MISMATCH
    assert str(found.headline) == "n1 would do, but for its cordoned devices (1)."
    assert kinds(found)[0] == ["cordon"]


def test_what_is_free_on_a_cut_card_is_not_called_the_most_that_is_free() -> None:
    whole = uniform_node("n1", 1, memory_mib=40960, used=[Held(1, 10000, 0)])
    cut = builders.node("m1", builders.mig_state(uses=(builders.mig_use("1g.5gb", 0, 1),)))
    found = why(whole, cut, request=pod(ask(memory_mib=40960)))
    assert str(found.headline).endswith("30960 MiB, on n1.")


def test_a_single_pod_is_preferred_to_several() -> None:
    node = builders.node("n1", state("GPU-n1-0", used=Held(2, 20000, 0)))
    found = why(node, request=pod(ask(memory_mib=20000)))
    assert max(map(len, kinds(found))) == 1


# -- Laws


@st.composite
def scenes(draw: st.DrawFn) -> tuple[View, Ask]:
    states = draw(clusters.clusters())
    view = view_of(*states.values(), limits=draw(st.none() | clusters.limits()), used_mib=draw(st.integers(0, 6)))
    lower = draw(st.integers(-1, 1))
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(states)))
        view = view.fold(Changes(locks={name: LockRow(name, "x", stale=True)}))
    if draw(st.booleans()):
        more = QuotaRow(2, Rule("labs/default", Selector(), draw(clusters.limits())), tenant=1)
        view = view.fold(Changes(quotas={2: more}, tenants={1: views.TENANT}))
        view = view.fold(Changes(namespaces={NAMESPACE: NamespaceRow(NAMESPACE, tenant=1)}))
    return view, Ask(NAMESPACE, draw(clusters.pods()), priority=lower)


@given(scene=scenes())
@settings(max_examples=60, deadline=None)
def test_law_10_every_fix_that_is_offered_makes_the_pod_fit(scene: tuple[View, Ask]) -> None:
    view, asked = scene
    found = explain.explain(view, asked, decide)
    if found.verdict is Verdict.FITS:
        assert found.fixes == ()
    for fix in found.fixes:
        changed = view.fold(fix.draft.changes)
        request = fix.draft.request or asked.request
        answer = decide(changed, Ask(NAMESPACE, request, priority=asked.priority), None)
        assert answer.placement == fix.placement
        assert fix.steps


@given(scene=scenes())
@settings(max_examples=30, deadline=None)
def test_law_11_an_explanation_says_what_the_decision_says(scene: tuple[View, Ask]) -> None:
    view, asked = scene
    found, answer = explain.explain(view, asked, decide), decide(view, asked, None)
    assert (found.verdict is Verdict.FITS) == (answer.placement is not None)
    assert found.placement == answer.placement
    refused = {line.node: line.text for line in found.nodes if line.reason is not None}
    for name, text in refused.items():
        rejection = answer.decision.question.fit(name)
        assert isinstance(rejection, Rejection)
        assert text == rejection.text()
    assert (found.verdict is Verdict.NEVER_FITS) <= (not ever.fits_when_empty(answer.decision, asked.request))


@given(scene=scenes())
@settings(max_examples=25, deadline=None)
def test_no_part_of_a_fix_could_be_left_out(scene: tuple[View, Ask]) -> None:
    """Of several obstacles on a node each one is needed."""
    view, asked = scene
    on_nodes = {Kind.CORDON, Kind.HOLD, Kind.RESERVED, Kind.HEALTH}
    for fix in explain.explain(view, asked, decide).fixes:
        if len(fix.steps) < 2 or not {step.kind for step in fix.steps} <= on_nodes or fix.draft.changes.holds:
            continue
        node = next(iter(fix.draft.changes.nodes))
        changed, before = fix.draft.changes.nodes[node], view.nodes[node]
        assert changed is not None
        pairs = list(zip(before.devices, changed.devices, strict=True))
        for index in [i for i, (old, new) in enumerate(pairs) if old != new]:
            devices = tuple(old if i == index else new for i, (old, new) in enumerate(pairs))
            part = view.fold(Changes(nodes={node: fixes.replace(changed, devices=devices)}))  # type: ignore[attr-defined]
            assert decide(part, asked, [node]).placement is None


def test_place_and_quota_stay_what_they_were() -> None:
    """Looking for fixes leaves the View as it is."""
    view = view_of(uniform_node("n1", 1, cordoned=True), limits=Limits(memory_mib=3000))
    before = (dict(view.nodes), dict(view.quotas), dict(view.pods))
    explain.explain(view, Ask(NAMESPACE, pod(ask(memory_mib=4000))), decide)
    assert before == (dict(view.nodes), dict(view.quotas), dict(view.pods))
    assert place(view.states, ["n1"], pod(ask()), headroom=quota.UNLIMITED).placement is None
