"""Explanations and simulations as lines of text for a terminal. Reads their plain data; must not know how it came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Data = Mapping[str, Any]
MARKS = {True: "✓", False: "✕", None: "○"}
NODES_SHOWN = 10


def explanation(data: Data, *, nodes: int = NODES_SHOWN) -> Iterator[str]:
    """Verdict and sentence, checks, the nearest nodes with their devices, and what would help."""
    name = f"{data['namespace']}/{data['name']}" if data["name"] else f"a pod in {data['namespace']}"
    state = f" · {data['state']}" if data["state"] else ""
    yield f"{name}{state} · asks {_ascii(data['asks'])}"
    yield f"{data['verdict'].replace('_', ' ').upper()}: {data['headline']}"
    if data["position"]:
        place = data["position"]
        yield (
            f"place {place['place']} of {place['of']} that wait, "
            f"{place['place_in_namespace']} of {place['of_namespace']} in its namespace"
        )
    yield ""
    for one in data["checks"]:
        numbers = ""
        if one["ok"] is False and one["have"] is not None and one["unit"] != "nodes":
            numbers = f" (has {one['have']}, needs {one['need']} {one['unit']})"
        yield f"  {MARKS[one['ok']]} {one['stage']:<9} {one['text']}{numbers}"
    yield from _nodes(data, nodes)
    yield from _fixes(data["fixes"])
    yield ""
    yield f"revision {data['revision']}"


def _nodes(data: Data, most: int) -> Iterator[str]:
    if not data["nodes"]:
        return
    yield ""
    yield f"Nodes, nearest first ({data['candidates']}):"
    for node in data["nodes"][:most]:
        verdict = "fits" if node["ok"] else node["code"]
        needed, good, has = node["devices_needed"], node["devices_good"], len(node["devices"])
        yield f"  {node['node']}  {verdict}  {good} of {has} devices would do, {needed} needed"
        for card in node["devices"]:
            word = "chosen" if card["chosen"] else "would do" if card["ok"] else card["code"]
            yield (
                f"    {MARKS[card['ok']]} {card['index']} {card['uuid']}  "
                f"{card['free_mib']} of {card['memory_mib']} MiB free, needs {card['need_mib']}; "
                f"{card['free_core_percent']} % of cores free, needs {card['need_core_percent']}; "
                f"{card['free_slots']} shares free  {word}"
            )
    left_out = data["nodes_left_out"] + max(0, len(data["nodes"]) - most)
    if left_out:
        yield f"  and {left_out} more"


def _fixes(found: Iterable[Data]) -> Iterator[str]:
    for number, fix in enumerate(found, start=1):
        if number == 1:
            yield ""
            yield "What would make it run (each was tried on a copy of the ledger):"
        for place, step in enumerate(fix["steps"]):
            start = f"{number}." if place == 0 else "  "
            yield f"  {start} {step['action']} ({step['role']})"
            if step["command"]:
                yield f"     {step['command']}"
        yield f"     → {fix['effect']}"


def simulation(data: Data, *, nodes: int = NODES_SHOWN) -> Iterator[str]:
    """The pod's answer, then what the changes would do."""
    if data["problem"]:
        yield f"NOT ADMITTED: {data['problem']}"
    if data["explanation"]:
        yield from explanation(data["explanation"], nodes=nodes)
    if len(data["copies"]) > 1:
        yield f"copies placed: {len(data['copies'])} on {', '.join(dict.fromkeys(data['copies']))}"
    if data["effect"]:
        yield from effect(data["effect"])


def effect(data: Data) -> Iterator[str]:
    """What would start, strand, move and be exceeded."""
    yield ""
    yield f"What the change would do to {data['waiting']} waiting pods (nothing was written):"
    for name, text in (("starts", "start"), ("moves", "move"), ("strands", "strand"), ("homeless", "find no place")):
        if data[f"{name}_count"]:
            yield f"  {data[f'{name}_count']} would {text}:"
        for pod in data[name]:
            detail = f"→ {pod['node']}" if "node" in pod else pod["why"]
            yield f"    {pod['namespace']}/{pod['name']}  {_ascii(pod['asks'])}  {detail}"
    for one in data["over"]:
        yield f"  {one['rule']}: {one['used']} of {one['limit']} {one['resource']} used, over by {one['over']}"
    if data["hidden"]:
        yield f"  {data['hidden']} of these are in namespaces that you may not see"
    counts = ("starts_count", "moves_count", "strands_count", "homeless_count")
    if not any(data[name] for name in counts) and not data["over"]:
        yield "  No pod of today is affected."


def replay(data: Data) -> Iterator[str]:
    """A decision, whether it comes out the same, and what has changed since."""
    yield f"decision {data['id']} of {data['namespace']}/{data['pod_name']} at revision {data['revision']}"
    yield f"  then:  {data['verdict']} {data['reason']} {data['summary']}".rstrip()
    if data["again"]:
        again = data["again"]
        yield f"  again: {again['verdict']} {again['reason']} {again['summary']}".rstrip()
    yield f"{data['outcome'].upper()}: {data['sentence']}"
    if data["hash_again"]:
        yield f"  inputs {data['hash_again']}, {data['candidates']} of {data['nodes']} nodes offered"
    for one in data["differences"]:
        yield f"  {one['what']}: {one['then']} → {one['again']}"
    if data["changes"]:
        yield f"What has changed since, at revision {data['revision_now']}:"
        for one in data["changes"]:
            subject = f" {one['subject']}" if one["subject"] else ""
            yield f"  {one['part']}{subject} {one['field']}: {one['then'] or '–'} → {one['now'] or '–'}"
    if data["more_changes"]:
        yield "  and more"


def _ascii(text: str) -> str:
    """Without the thin spaces that group digits: terminals and scripts copy them."""
    return text.replace("\u202f", "")
