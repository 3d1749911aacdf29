"""Decisions equal those recorded from HAMi v2.10.0: node, rows, scores, and the reason text of every refused node.

| recorded with | compared with |
|---|---|
| no fault | HAMi's answer, or any other it was seen to give |
| K1, K4, K7 | the answer of HAMi with these repaired |
| other faults | not compared; what is right is decided in `DECIDED` or in tests of their own |
"""

from __future__ import annotations

import pytest

from tests.domain import vectors

FILES = ("filter-nvidia.json", "filter-quota.json", "filter-random.json")
REPAIRED = {"K1", "K4", "K7", "D1"}

OUTSIDE = {
    "filter-nvidia-001": "nothing asked: the extender echoes",
    "filter-nvidia-010": "nothing asked",
    "filter-nvidia-022": "node registration",
    "filter-nvidia-023": "node liveness",
    "filter-nvidia-024": "node liveness",
    "filter-nvidia-028": "node liveness",
    "filter-nvidia-029": "node registration",
    "filter-nvidia-377": "an undecodable reservation is the wire's",
    "filter-quota-031": "writing the answer fails",
    **{f"filter-nvidia-{n}": "unreadable weights are the parser's" for n in (208, 211, 212, 213, 215, 216, 218, 219)},
    **{f"filter-random-{n:03}": "nothing asked" for n in (40, 72, 83, 96, 106, 111, 114, 131)},
}
TIES = {
    "filter-nvidia-288": "a full tie: we take the highest index, HAMi what the sort before had left in front",
    "filter-random-081": "a full tie among more than 12 devices, where HAMi's sort is not stable",
}
DECIDED = {
    "filter-random-138": "K44: the app goes where an init container of the pod has already reserved more",
}


def comparable() -> list[vectors.Json]:
    """Vectors whose right answer is the recorded one."""
    skipped = OUTSIDE.keys() | TIES.keys() | DECIDED.keys()
    return [
        vector
        for name in FILES
        for vector in vectors.load(name)
        if vector["id"] not in skipped and set(vector.get("fault", "").split(",")) <= REPAIRED | {""}
    ]


@pytest.mark.parametrize("vector", comparable(), ids=lambda vector: vector["id"])
def test_decision_is_the_recorded_one(vector: vectors.Json) -> None:
    decision = vectors.decide(vector)

    assert vectors.outcome_of(decision, vectors.container_count(vector)) in vectors.recorded(vector)
    scores = (vector.get("corrected") or vector["expect"])["steps"][0].get("scores")
    if scores is not None and "alternatives" not in vector["expect"]:
        assert dict(decision.fitting) == pytest.approx(scores, abs=0.011)


def test_most_vectors_are_compared() -> None:
    assert len(comparable()) >= 360
