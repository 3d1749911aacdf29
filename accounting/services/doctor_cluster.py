"""Checks of what was read of the cluster. See doctor. Pure: facts in, (verdict, text, what mends it) out."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hami_platform import env
from hami_platform.domain import errors
from hami_platform.domain.wire import node_lock

if TYPE_CHECKING:
    from accounting.services.doctor import Facts

GOOD, BAD, ODD, UNKNOWN = "good", "bad", "odd", "unknown"
"""odd: works, but look at it. unknown: it could not be found out, which the text explains."""
Finding = tuple[str, str, str]
"""(verdict, text, what mends it)."""
Whole = Mapping[str, Any]

OLDEST, LABELS_SINCE = (1, 30), (1, 35)
"""Match conditions of webhooks (Kubernetes 1.30); labels inside a Binding (1.35): before, one more patch a pod."""
NEEDED = (
    *(("list", resource, "") for resource in ("pods", "nodes", "resourcequotas")),
    *(("watch", resource, "") for resource in ("pods", "nodes", "resourcequotas")),
    ("patch", "pods", ""),
    ("patch", "nodes", ""),
    ("create", "events", ""),
)
AGENT, HANDSHAKE = "platform.hami.io/agent", "hami.io/node-handshake"
REGISTER = re.compile(r"hami\.io/node-(.+-)?register(-.+)?|metax-tech\.com/node-gpu-devices")
OURS, HAMIS = "platform.hami.io", "hami"
LOCK_OLD_S, SKEW_S, LEASE_S = 300, 30, 40


def reachable(facts: Facts) -> Finding:
    """The API server answers."""
    if "version" in facts.unread:
        return BAD, facts.unread["version"], "look at HAMI_KUBECONFIG; inside a cluster leave it empty"
    return GOOD, f"answers; {len(facts.nodes)} nodes, {len(facts.pods)} pods", ""


def version(facts: Facts) -> Finding:
    """It is new enough for the webhook's match conditions."""
    text = str(facts.version.get("gitVersion", ""))
    numbers = re.match(r"v(\d+)\.(\d+)", text)
    if numbers is None:
        return UNKNOWN, f"no version in {text!r}", ""
    found = (int(numbers[1]), int(numbers[2]))
    if found < OLDEST:
        return BAD, f"{text}: the webhook's match conditions need 1.30", "upgrade Kubernetes to 1.30 or newer"
    if found < LABELS_SINCE:
        return ODD, f"{text}: before 1.35 a Binding carries no labels, so each pod costs one patch more", ""
    return GOOD, text, ""


def rights(facts: Facts) -> Finding:
    """This account may do what worker and watcher do."""
    if "rights" in facts.unread:
        return UNKNOWN, facts.unread["rights"], ""
    missing = [what for what, allowed in facts.allowed.items() if not allowed]
    if env.current().role == "worker":
        missing = [what for what in missing if not what.startswith("watch")]  # its account need not: it lists
    if missing:
        # Accounts of single processes may do no more than these need.
        verdict = BAD if any(what.startswith("list") for what in missing) else ODD
        return verdict, f"this account may not: {', '.join(missing)}", "kubectl apply -k deploy/base"
    return GOOD, f"all {len(facts.allowed)} that worker and watcher need", ""


def gpu_nodes(facts: Facts) -> Finding:
    """Nodes offer devices, and have registered those they offer."""
    resources = set(facts.config.resource_names)
    offering = [one for one in facts.nodes if resources & set(_allocatable(one))]
    registered = [one for one in facts.nodes if _registers(one)]
    labelled = sum(1 for one in facts.nodes if _labels(one).get("gpu") == "on")
    if not offering and not registered:
        text = f"none of {len(facts.nodes)} nodes offers a vendor's resource; {labelled} carry the label gpu=on"
        return BAD, text, "kubectl label node NODE gpu=on, where the device plugin shall run"
    kinds = Counter(name for one in offering for name in _allocatable(one) if name in resources)
    told = ", ".join(f"{name} on {count}" for name, count in sorted(kinds.items())[:6])
    silent = sorted(_name(one) for one in offering if one not in registered)
    if silent:
        text = f"{len(silent)} offer devices and have not registered them: {_few(silent)}"
        return ODD, text, "look at the device plugin's log on these nodes"
    return (
        GOOD,
        f"{len(registered)} register devices ({told or 'no plugin serves now'}); {labelled} labelled gpu=on",
        "",
    )


def hami(facts: Facts) -> Finding:
    """Which of HAMi's parts run here, in which version."""
    if "deployments" in facts.unread:
        return UNKNOWN, f"may not list deployments: {facts.unread['deployments']}", ""
    found = [
        f"{_name(one)} {image}"
        for one in (*facts.deployments, *facts.daemon_sets)
        for image in _images(one)
        if "/hami" in f"/{image}" and "hami-platform" not in image
    ]
    if not found:
        return GOOD, "HAMi does not run here", ""
    schedulers = [text for text in found if "scheduler" in text]
    told = _few(sorted(found), 4)
    if schedulers:
        return ODD, f"its scheduler runs: {told}", "docs/hami.md: two schedulers must not serve one scheduler name"
    return GOOD, f"its parts run beside us: {told}", ""


def registers(facts: Facts) -> Finding:
    """Register annotations hold devices."""
    empty = sorted(_name(one) for one in facts.nodes for text in _registers(one).values() if text in ("", "[]"))
    count = sum(1 for one in facts.nodes if _registers(one))
    if empty:
        return ODD, f"registered without a device: {_few(empty)}", "look at the device plugin's log on these nodes"
    if not count:
        return UNKNOWN, "no node has one yet", ""
    return GOOD, f"{count} nodes", ""


def generations(facts: Facts) -> Finding:
    """In which of HAMi's formats they are."""
    old = sorted(
        _name(one) for one in facts.nodes for text in _registers(one).values() if text and text[:1] not in "[{"
    )
    if old:
        return (
            ODD,
            f"HAMi before 2.5 wrote them by colons; they are read, on {_few(old)}",
            "upgrade HAMi's plugin there",
        )
    return GOOD, "JSON, as HAMi 2.5 and newer write them", ""


def vendors(facts: Facts) -> Finding:
    """Every register annotation is one that somebody here reads."""
    known = {key for one in facts.config.vendors for key in _register_keys(one)}
    strange = sorted({key for one in facts.nodes for key in _registers(one)} - known)
    if strange:
        return BAD, f"nobody here understands {', '.join(strange)}", "name the vendor in HAMI_DEVICE_CONFIG_FILE"
    return GOOD, f"{len(facts.config.vendors)} configured", ""


def webhook(facts: Facts) -> Finding:
    """Ours is configured, can be trusted by the API server, and fails closed."""
    make = "./manage.py webhook_config --service hami-platform-webhook --namespace hami-system | kubectl apply -f -"
    if "webhooks" in facts.unread:
        return UNKNOWN, f"may not read webhook configurations: {facts.unread['webhooks']}", ""
    ours = [hook for one in facts.webhooks for hook in one.get("webhooks", ()) if hook["name"].endswith(OURS)]
    if not ours:
        return BAD, "not configured: pods with devices pass without a claim", make
    without = [hook["name"] for hook in ours if not hook["clientConfig"].get("caBundle")]
    open_ = [hook["name"] for hook in ours if hook.get("failurePolicy") != "Fail"]
    if without:
        return BAD, f"no authority in {', '.join(without)}: the API server cannot trust us", make
    bad = [hook["name"] for hook in ours if b"BEGIN CERTIFICATE" not in _bundle(hook)]
    if bad:
        return BAD, f"the authority of {', '.join(bad)} is no certificate", make
    if open_:
        return ODD, f"failurePolicy is not Fail in {', '.join(open_)}: pods pass while we are away", make
    return GOOD, f"{len(ours)} entries, failing closed", ""


def webhook_order(facts: Facts) -> Finding:
    """Whether HAMi's is called, too."""
    names = sorted(_name(one) for one in facts.webhooks)
    others = [name for name in names if HAMIS in name and not any(OURS in hook for hook in _hooks(facts, name))]
    if not others:
        return GOOD, "no webhook of HAMi's", ""
    return (
        ODD,
        f"{', '.join(others)} is there, too: the API server calls them by name, and HAMi's sets its scheduler's name",
        f"kubectl delete mutatingwebhookconfiguration {others[0]}",
    )


def scheduler_names(facts: Facts) -> Finding:
    """Pods that ask for devices name our scheduler."""
    ours = env.current().scheduler_name
    if not ours:
        return UNKNOWN, "HAMI_SCHEDULER_NAME is empty: pods keep theirs", ""
    elsewhere = sorted(
        _where(one) for one in _asking(facts) if one["spec"].get("schedulerName", ours) != ours and not _ended(one)
    )
    if elsewhere:
        return ODD, f"asks for devices of another scheduler: {_few(elsewhere)}", f"set schedulerName: {ours}"
    return GOOD, f"{ours}, in every pod that asks for devices", ""


def plugins(facts: Facts) -> Finding:
    """One device plugin a node."""
    both = sorted(_name(one) for one in facts.nodes if AGENT in _labels(one) and _fresh_handshake(one, facts.now_s))
    if both:
        return BAD, f"our agent and HAMi's plugin serve the same resource on {_few(both)}", "leave one of them out"
    count = sum(1 for one in facts.nodes if AGENT in _labels(one))
    return GOOD, f"one for each node; our agent on {count}", ""


def native_quotas(facts: Facts) -> Finding:
    """ResourceQuotas that limit devices."""
    resources = set(facts.config.resource_names)
    names = sorted(
        f"{_where(one)}"
        for one in facts.quotas
        if any(key.removeprefix("limits.").removeprefix("requests.") in resources for key in _hard(one))
    )
    if names:
        return GOOD, f"{len(names)} count, beside ours, the least of them: {_few(names)}", ""
    return GOOD, "none limits devices", ""


def bypassed(facts: Facts) -> Finding:
    """Pods on nodes with devices that nobody allocated."""
    allocated = {key for one in facts.config.vendors for key in (one.allocated_key, one.to_allocate_key) if key}
    found = sorted(
        _where(one)
        for one in _asking(facts)
        if one["spec"].get("nodeName") and not _ended(one) and not allocated & set(_annotations(one))
    )
    if found:
        text = f"on their nodes without an allocation: {_few(found)}; their nodes take no new pods with devices"
        return BAD, text, f"kubectl delete pod {found[0].partition('/')[2]} -n {found[0].partition('/')[0]}"
    return GOOD, "every pod with devices has its allocation", ""


def clocks(facts: Facts) -> Finding:
    """Nodes' clocks against this machine's."""
    if "node_leases" in facts.unread:
        return UNKNOWN, facts.unread["node_leases"], ""
    ahead = sorted(
        _name(one)
        for one in facts.node_leases
        if (at := _seconds(one.get("spec", {}).get("renewTime"))) is not None and at - facts.now_s > SKEW_S
    )
    if ahead:
        return ODD, f"ahead of this machine by over {SKEW_S} s: {_few(ahead)}", "look at NTP there, or here"
    return GOOD, "none is ahead; ages of ours are the database's", ""


def locks(facts: Facts) -> Finding:
    """Locks that somebody left behind."""
    old, strange = [], []
    for one in facts.nodes:
        text = _annotations(one).get(node_lock.KEY)
        if text is None:
            continue
        try:
            lock = node_lock.decode(text)
        except errors.WireError:
            strange.append(_name(one))
        else:
            old += [_name(one)] if facts.now_s - lock.at_s > LOCK_OLD_S else []
    if old or strange:
        first = (old + strange)[0]
        text = f"left over or unreadable: {_few(sorted(old + strange))}"
        return ODD, text, f"kubectl annotate node {first} {node_lock.KEY}-"
    return GOOD, "none is older than five minutes", ""


# -- Reading ----------------------------------------------------------------------------------------------------------


def _name(one: Whole) -> str:
    return str(one["metadata"]["name"])


def _where(one: Whole) -> str:
    return f"{one['metadata'].get('namespace', '')}/{_name(one)}"


def _labels(one: Whole) -> Mapping[str, str]:
    return one["metadata"].get("labels") or {}


def _annotations(one: Whole) -> Mapping[str, str]:
    return one["metadata"].get("annotations") or {}


def _allocatable(node: Whole) -> Mapping[str, str]:
    return {name: text for name, text in (node.get("status", {}).get("allocatable") or {}).items() if text != "0"}


def _registers(node: Whole) -> dict[str, str]:
    return {key: text.strip() for key, text in _annotations(node).items() if REGISTER.fullmatch(key)}


def _register_keys(vendor: Any) -> Iterable[str]:
    return [key for key in (vendor.register_key,) if key]


def _hard(quota: Whole) -> Iterable[str]:
    return quota.get("spec", {}).get("hard") or {}


def _images(workload: Whole) -> Iterator[str]:
    for container in workload.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
        yield str(container.get("image", ""))


def _hooks(facts: Facts, name: str) -> list[str]:
    return [hook["name"] for one in facts.webhooks if _name(one) == name for hook in one.get("webhooks", ())]


def _bundle(hook: Whole) -> bytes:
    try:
        return base64.b64decode(hook["clientConfig"]["caBundle"], validate=True)
    except ValueError:
        return b""


def _asking(facts: Facts) -> Iterator[Whole]:
    resources = set(facts.config.resource_names)
    for pod in facts.pods:
        spec = pod.get("spec", {})
        for container in (*spec.get("containers", ()), *(spec.get("initContainers") or ())):
            given = container.get("resources") or {}
            if resources & {*(given.get("limits") or ()), *(given.get("requests") or ())}:
                yield pod
                break


def _ended(pod: Whole) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _fresh_handshake(node: Whole, now_s: float) -> bool:
    """HAMi's plugin reports every 30 s: `Reported 2026-01-02T…`."""
    text = _annotations(node).get(HANDSHAKE, "")
    at = _seconds(text.removeprefix("Reported ").strip()) if text.startswith("Reported") else None
    return at is not None and now_s - at < 2 * LEASE_S


_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.\d+)? ?(Z|[+-]\d\d:?\d\d)?")


def _seconds(text: Any) -> float | None:
    """Of RFC 3339, and of what Go prints (`2026-09-21 14:13:10.5 +0800 CST`); UTC where no zone is said."""
    found = _TIME.match(str(text))
    if found is None:
        return None
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[2]}{found[3] or 'Z'}").timestamp()
    except ValueError:
        return None


def _few(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
