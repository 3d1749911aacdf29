"""The checks that a pod passes on its way to running, in order, each with what there is and what is needed.

Reads a finished decision or a pod's row. Takes no decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hami_platform.domain import headlines, place, quota
from hami_platform.domain.arithmetic import NodeLine
from hami_platform.domain.reasons import Reason
from hami_platform.domain.rows import PodRow
from hami_platform.domain.sentences import Sentence, phrase
from hami_platform.domain.what_if import Answer

STAGES = ("webhook", "quota", "filter", "bind", "allocate", "running")


@dataclass(frozen=True, slots=True)
class Check:
    """One check. ok None: not reached. have, need: amounts of `unit` in `scope`, where there are any."""

    stage: str
    ok: bool | None
    text: Sentence
    code: str = ""
    have: int | None = None
    need: int | None = None
    unit: str = ""
    scope: str = ""


def of(
    answer: Answer, row: PodRow | None, lines: Sequence[NodeLine], *, excess: quota.Excess | None
) -> tuple[Check, ...]:
    """The checks of a pod that has no device."""
    return (_webhook(row), _quota(answer, row, excess), _filter(answer, lines, excess), *_later("bind", ok=None))


def of_placed(row: PodRow) -> tuple[Check, ...]:
    """The checks of a pod that has devices."""
    passed = (
        _webhook(row),
        Check("quota", True, phrase("Its devices are counted in its namespace.")),
        Check("filter", True, phrase("Devices on %(node)s are its own.", node=row.node)),
    )
    reached = {"reserved": 0, "binding": 0, "bound": 1, "running": 3, "releasing": 3}.get(row.state, 3)
    return (*passed, *_later("bind", ok=None, reached=reached))


def of_unmanaged(row: PodRow) -> tuple[Check, ...]:
    """The checks of a pod that another scheduler places."""
    return (_webhook(row),)


def _webhook(row: PodRow | None) -> Check:
    if row is None:
        return Check("webhook", True, phrase("Admission would let it in."))
    if row.unmanaged:
        return Check("webhook", False, phrase("It came past the webhook."), code="WebhookBypassed")
    if not row.uid:
        return Check("webhook", True, phrase("Admitted; its pod has not been seen yet."))
    return Check("webhook", True, phrase("Admitted."))


def _quota(answer: Answer, row: PodRow | None, excess: quota.Excess | None) -> Check:
    if excess is not None:
        unit = {"devices": "devices", "core_percent": "%"}.get(excess.resource.removeprefix("pod_"), "MiB")
        return Check(
            "quota", False, headlines.of_limit(excess), Reason.RESOURCE_QUOTA_NOT_FIT.value,
            excess.free, excess.asked, unit, excess.rule,
        )  # fmt: skip
    if answer.excess is not None:
        text = phrase("Over quota %(rule)s, which this namespace only warns of.", rule=answer.excess.rule)
        return Check("quota", True, text, scope=answer.excess.rule)
    if row is not None and row.gated:
        return Check("quota", True, phrase("There is room now; its scheduling gate falls at the next look."))
    if row is not None and row.state == "claimed":
        return Check("quota", True, phrase("Its claim is held."))
    return Check("quota", True, phrase("No limit stands in its way."))


def _filter(answer: Answer, lines: Sequence[NodeLine], excess: quota.Excess | None) -> Check:
    decision = answer.decision
    candidates = len(decision.question.candidates)
    if decision.placement is not None:
        text = phrase("Fits on %(node)s.", node=decision.placement.node)
        return Check("filter", True if excess is None else None, text, have=1, need=1, unit="nodes")
    reasons = place.dominant_reasons(decision.rejections)
    words = ", ".join(f"{count} {reason.value}" for reason, count in reasons)
    code = lines[0].reason.value if lines and lines[0].reason is not None else ""
    text = phrase("Fits on none of %(nodes)s nodes: %(reasons)s.", nodes=candidates, reasons=words or "no device")
    return Check("filter", False, text, code, have=0, need=1, unit="nodes")


def _later(first: str, *, ok: bool | None, reached: int = 0) -> tuple[Check, ...]:
    """The stages after the choice: `reached` of them are passed."""
    texts = {
        "bind": phrase("The scheduler binds it to the node."),
        "allocate": phrase("The node hands out its devices."),
        "running": phrase("Its containers run."),
    }
    stages = STAGES[STAGES.index(first) :]
    return tuple(Check(stage, True if n < reached else ok, texts[stage]) for n, stage in enumerate(stages))
