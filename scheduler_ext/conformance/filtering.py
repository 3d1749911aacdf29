"""The `filter` step: a pod goes through `/filter`, and the decision is read back from what the extender traced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accounting.models import Pod, PodState
from accounting.services import wire_texts
from scheduler_ext import filter_events, traces
from scheduler_ext.conformance.world import World

Json = dict[str, Any]

MUTATED = "$mutated"
"""Stands for the pod as the last admission left it."""
REFUSED = "webhook refused the pod"


def filter_pod(world: World, step: Json) -> Json:
    """What the extender answered, what it would write to the pod, and the decision's scores."""
    pod = _pod(world, step)
    if pod is None:
        return {"skipped": REFUSED}
    names = step.get("nodeNames")
    if names is None:
        names = [one["metadata"]["name"] for one in world.cluster.all("nodes")]
    answer = world.post("/filter", _asked(world, step, pod, names))
    found = _answered(answer)
    row = world.row(pod["metadata"]["uid"])
    if not step.get("simulate") and answer["NodeNames"] and row is not None and row.state == PodState.RESERVED:
        found |= _written(world, row, pod) | _scored(world, len(names))
    events = [f"{one.type} {one.reason} {one.message}" for one in world.told if one.reason != filter_events.SUCCEEDED]
    return found | ({"events": events} if events else {}) | world.state()


def _pod(world: World, step: Json) -> Json | None:
    """The pod that is asked for; stored, and told to the ledger, unless it is there or only simulated."""
    if "podRef" in step:
        return world.find(step["podRef"])
    pod = step["pod"]
    if pod == MUTATED:
        pod = world.mutated
        if pod is None:
            return None
    meta = pod.get("metadata") or {}
    known = world.cluster.get("pods", meta.get("name", ""), meta.get("namespace") or "default")
    if known is not None and known["metadata"]["uid"] == meta.get("uid", known["metadata"]["uid"]):
        return known
    if step.get("simulate"):
        meta = {"namespace": "default", "uid": f"uid-{meta.get('name', '')}", **meta}
        return {**pod, "metadata": meta}
    made = world.cluster.put("pods", pod)
    world.pod(made)
    return made


def _asked(world: World, step: Json, pod: Json, names: list[str]) -> Json:
    if step.get("nullNodes"):
        return {"Pod": pod, "Nodes": None, "NodeNames": None}
    if step.get("simulate"):
        nodes = [world.cluster.objects["nodes", "", name] for name in names]
        return {"Pod": pod, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}
    return {"Pod": pod, "Nodes": None, "NodeNames": names}


def _answered(answer: Mapping[str, Any]) -> Json:
    found: Json = {}
    if answer["NodeNames"] is not None:
        found["nodeNames"] = answer["NodeNames"]
    if answer["Nodes"] is not None:
        found["nodes"] = [one["metadata"]["name"] for one in answer["Nodes"]["items"]]
    if answer["FailedNodes"] is not None:
        found["failedNodes"] = answer["FailedNodes"]
    if answer["Error"]:
        found["error"] = answer["Error"]
    return found


def _written(world: World, row: Pod, pod: Json) -> Json:
    """The reservation's wire strings, where they differ from what the pod has or a step before has shown.

    HAMi patches them here, we send them with the Binding. All steps happen within HAMi's second.
    """
    texts = {key: text for key, text in row.wire.items() if isinstance(text, str)}
    texts |= {wire_texts.NODE: row.node}
    before = {**((pod.get("metadata") or {}).get("annotations") or {}), **world.shown.get(row.uid, {})}
    news = {key: text for key, text in texts.items() if before.get(key) != text}
    shown_before = row.uid in world.shown
    world.shown[row.uid] = texts | {wire_texts.TIME: ""}
    if not news and shown_before:
        return {}
    news[wire_texts.TIME] = str(int(world.now.timestamp()))
    label = {wire_texts.NODE: row.node} if len(row.node) <= wire_texts.LABEL_MAX and not shown_before else {}
    return {"annotations": news} | ({"labels": label} if label else {})


def _scored(world: World, candidates: int) -> Json:
    """All nodes that fit with their scores, and how many do not."""
    decided = [one.decision for one in world.decided if one.verdict == traces.PLACED and one.decision is not None]
    if not decided:
        return {}
    fitting = dict(decided[-1].fitting) | {one.node: one.score for one in decided[-1].alternatives}
    return {"scores": fitting, "notFit": candidates - len(fitting)}
