"""HAMi's admission answers. Quota is not decided here, and what it does wrong is listed with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from hami_platform.domain import admission, units
from hami_platform.domain.vendors import registry
from tests import json_patches
from tests.domain import golden

DECIDED = {
    "webhook-nvidia-012": "requests without limits, which the API server refuses: ours all the same",
    "webhook-nvidia-018": "99.5 % is refused, not rounded up (H07)",
    "webhook-nvidia-024": "a count of 0 asks for no device: untouched",
    "webhook-nvidia-026": "memory and percentage together are refused (D3)",
}
REFUSED = {"webhook-nvidia-018", "webhook-nvidia-026"}
FIXED = ("K28", "K29", "K30")
OTHER_VENDORS = "ASCEND_VISIBLE_DEVICES="
OVER_QUOTA = "exceeding resource quota"


def settings(vector: dict[str, Any]) -> admission.AdmissionSettings:
    flags = vector.get("config", {}).get("flags", {})
    return admission.AdmissionSettings(
        scheduler_name=flags.get("schedulerName", "hami-scheduler"),
        force_overwrite=flags.get("forceOverwrite", True),
        hami_codes=True,
    )


def summary(pod: dict[str, Any]) -> dict[str, Any]:
    """The fields that HAMi's vectors show."""
    spec = pod["spec"]
    found: dict[str, Any] = {"schedulerName": spec.get("schedulerName", "")}
    if spec.get("runtimeClassName"):
        found["runtimeClassName"] = spec["runtimeClassName"]
    for part in ("initContainers", "containers"):
        if spec.get(part):
            found[part] = [container_summary(one) for one in spec[part]]
    return found


def container_summary(one: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": one["name"]}
    for part, amounts in (one.get("resources") or {}).items():
        if amounts:
            found[part] = {name: units.whole(amount) for name, amount in amounts.items()}
    if one.get("env"):
        found["env"] = sorted(f"{entry['name']}={entry['value']}" for entry in one["env"])
    return found


def expected_summary(pod: dict[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in pod.items() if key in ("schedulerName", "runtimeClassName")}
    for part in ("initContainers", "containers"):
        if pod.get(part):
            found[part] = [expected_container(one) for one in pod[part]]
    return found


def expected_container(one: dict[str, Any]) -> dict[str, Any]:
    found = dict(one)
    for part in ("limits", "requests"):
        if part in found:
            found[part] = {name: units.whole(amount) for name, amount in found[part].items()}
    env = sorted(entry for entry in found.pop("env", []) if entry != OTHER_VENDORS)
    return found | ({"env": env} if env else {})


VECTORS = [
    vector
    for vector in golden.load("webhook-nvidia")
    if vector.get("fault") not in FIXED and "pod" in vector["new"][0] and len(vector["new"]) == 1
]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_golden_admission(vector: dict[str, Any]) -> None:
    pod, expected = vector["new"][0]["pod"], vector["expect"]["steps"][0]
    config = registry.device_config(golden.config(vector))
    verdict = admission.review(pod, config=config, settings=settings(vector))
    if vector["id"] in DECIDED:
        assert isinstance(verdict, admission.Denied) is (vector["id"] in REFUSED)
    elif expected["allowed"]:
        assert not isinstance(verdict, admission.Denied)
        patch = verdict.patch if isinstance(verdict, admission.Mutated) else ()
        assert summary(json_patches.apply(pod, patch)) == expected_summary(expected["pod"])
    elif expected["message"] != OVER_QUOTA:
        assert isinstance(verdict, admission.Denied)
        assert verdict.code == expected["code"]


def test_the_vectors_that_are_decided_otherwise_exist() -> None:
    assert set(DECIDED) <= {vector["id"] for vector in VECTORS}
