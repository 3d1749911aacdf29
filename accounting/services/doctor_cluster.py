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
from hami_platform.domain.sentences import Sentence, phrase
from hami_platform.domain.wire import node_lock

if TYPE_CHECKING:
    from accounting.services.doctor import Facts

GOOD, BAD, ODD, UNKNOWN = "good", "bad", "odd", "unknown"
"""odd: works, but look at it. unknown: it could not be found out, which the text explains."""
Said = Sentence | str
"""In words that can be translated, or as it is: a command, or what another program said."""
Finding = tuple[str, Said, Said]
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
LOOK_AT_PLUGIN = phrase("look at the device plugin's log on these nodes")
LOCK_OLD_S, SKEW_S, LEASE_S = 300, 30, 40


def reachable(facts: Facts) -> Finding:
    """The API server answers."""
    if "version" in facts.unread:
        return BAD, facts.unread["version"], phrase("look at HAMI_KUBECONFIG; inside a cluster leave it empty")
    return GOOD, phrase("answers; nodes: %(nodes)s, pods: %(pods)s", nodes=len(facts.nodes), pods=len(facts.pods)), ""


def version(facts: Facts) -> Finding:
    """It is new enough for the webhook's match conditions."""
    text = str(facts.version.get("gitVersion", ""))
    numbers = re.match(r"v(\d+)\.(\d+)", text)
    if numbers is None:
        return UNKNOWN, phrase("no version in %(text)s", text=repr(text)), ""
    found = (int(numbers[1]), int(numbers[2]))
    if found < OLDEST:
        needed = phrase("%(version)s: the webhook's match conditions need 1.30", version=text)
        return BAD, needed, phrase("upgrade Kubernetes to 1.30 or newer")
    if found < LABELS_SINCE:
        dearer = phrase(
            "%(version)s: before 1.35 a Binding carries no labels, so each pod costs one patch more", version=text
        )
        return ODD, dearer, ""
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
        return (
            verdict,
            phrase("this account may not: %(what)s", what=", ".join(missing)),
            "kubectl apply -k deploy/base",
        )
    return GOOD, phrase("all %(n)s that worker and watcher need", n=len(facts.allowed)), ""


def gpu_nodes(facts: Facts) -> Finding:
    """Nodes offer devices, and have registered those they offer."""
    resources = set(facts.config.resource_names)
    offering = [one for one in facts.nodes if resources & set(_allocatable(one))]
    registered = [one for one in facts.nodes if _registers(one)]
    labelled = sum(1 for one in facts.nodes if _labels(one).get("gpu") == "on")
    if not offering and not registered:
        nothing = phrase(
            "none of %(nodes)s nodes offers a vendor's resource; with the label gpu=on: %(labelled)s",
            nodes=len(facts.nodes),
            labelled=labelled,
        )
        return BAD, nothing, "kubectl label node NODE gpu=on"
    kinds = Counter(name for one in offering for name in _allocatable(one) if name in resources)
    told = ", ".join(f"{name} on {count}" for name, count in sorted(kinds.items())[:6])
    silent = sorted(_name(one) for one in offering if one not in registered)
    if silent:
        offers = phrase(
            "%(n)s offer devices and have not registered them: %(which)s", n=len(silent), which=_few(silent)
        )
        return ODD, offers, LOOK_AT_PLUGIN
    found = phrase(
        "nodes that register devices: %(n)s (%(told)s); with the label gpu=on: %(labelled)s",
        n=len(registered),
        told=told or phrase("no plugin serves now"),
        labelled=labelled,
    )
    return GOOD, found, ""


def hami(facts: Facts) -> Finding:
    """Which of HAMi's parts run here, in which version."""
    if "deployments" in facts.unread:
        return UNKNOWN, phrase("may not list deployments: %(why)s", why=facts.unread["deployments"]), ""
    found = [
        f"{_name(one)} {image}"
        for one in (*facts.deployments, *facts.daemon_sets)
        for image in _images(one)
        if "/hami" in f"/{image}" and "hami-platform" not in image
    ]
    if not found:
        return GOOD, phrase("HAMi does not run here"), ""
    schedulers = [text for text in found if "scheduler" in text]
    told = _few(sorted(found), 4)
    if schedulers:
        advice = phrase("docs/hami.md: two schedulers must not serve one scheduler name")
        return ODD, phrase("its scheduler runs: %(which)s", which=told), advice
    return GOOD, phrase("its parts run beside us: %(which)s", which=told), ""


def registers(facts: Facts) -> Finding:
    """Register annotations hold devices."""
    empty = sorted(_name(one) for one in facts.nodes for text in _registers(one).values() if text in ("", "[]"))
    count = sum(1 for one in facts.nodes if _registers(one))
    if empty:
        return ODD, phrase("registered without a device: %(which)s", which=_few(empty)), LOOK_AT_PLUGIN
    if not count:
        return UNKNOWN, phrase("no node has one yet"), ""
    return GOOD, phrase("nodes: %(n)s", n=count), ""


def generations(facts: Facts) -> Finding:
    """In which of HAMi's formats they are."""
    old = sorted(
        _name(one) for one in facts.nodes for text in _registers(one).values() if text and text[:1] not in "[{"
    )
    if old:
        colons = phrase("HAMi before 2.5 wrote them by colons; they are read, on %(which)s", which=_few(old))
        return ODD, colons, phrase("upgrade HAMi's plugin there")
    return GOOD, phrase("JSON, as HAMi 2.5 and newer write them"), ""


def vendors(facts: Facts) -> Finding:
    """Every register annotation is one that somebody here reads."""
    known = {key for one in facts.config.vendors for key in _register_keys(one)}
    strange = sorted({key for one in facts.nodes for key in _registers(one)} - known)
    if strange:
        unknown = phrase("nobody here understands %(which)s", which=", ".join(strange))
        return BAD, unknown, phrase("name the vendor in HAMI_DEVICE_CONFIG_FILE")
    return GOOD, phrase("configured: %(n)s", n=len(facts.config.vendors)), ""


def webhook(facts: Facts) -> Finding:
    """Ours is configured, can be trusted by the API server, and fails closed."""
    make = "./manage.py webhook_config --service hami-platform-webhook --namespace hami-system | kubectl apply -f -"
    if "webhooks" in facts.unread:
        return UNKNOWN, phrase("may not read webhook configurations: %(why)s", why=facts.unread["webhooks"]), ""
    ours = [hook for one in facts.webhooks for hook in one.get("webhooks", ()) if hook["name"].endswith(OURS)]
    if not ours:
        return BAD, phrase("not configured: pods with devices pass without a claim"), make
    without = [hook["name"] for hook in ours if not hook["clientConfig"].get("caBundle")]
    open_ = [hook["name"] for hook in ours if hook.get("failurePolicy") != "Fail"]
    if without:
        which = ", ".join(without)
        return BAD, phrase("no authority in %(which)s: the API server cannot trust us", which=which), make
    bad = [hook["name"] for hook in ours if b"BEGIN CERTIFICATE" not in _bundle(hook)]
    if bad:
        return BAD, phrase("the authority of %(which)s is no certificate", which=", ".join(bad)), make
    if open_:
        which = ", ".join(open_)
        return ODD, phrase("failurePolicy is not Fail in %(which)s: pods pass while we are away", which=which), make
    return GOOD, phrase("entries: %(n)s, failing closed", n=len(ours)), ""


def webhook_order(facts: Facts) -> Finding:
    """Whether HAMi's is called, too."""
    names = sorted(_name(one) for one in facts.webhooks)
    others = [name for name in names if HAMIS in name and not any(OURS in hook for hook in _hooks(facts, name))]
    if not others:
        return GOOD, phrase("no webhook of HAMi's"), ""
    both = phrase(
        "%(which)s is there, too: the API server calls them by name, and HAMi's sets its scheduler's name",
        which=", ".join(others),
    )
    return ODD, both, f"kubectl delete mutatingwebhookconfiguration {others[0]}"


def scheduler_names(facts: Facts) -> Finding:
    """Pods that ask for devices name our scheduler."""
    ours = env.current().scheduler_name
    if not ours:
        return UNKNOWN, phrase("HAMI_SCHEDULER_NAME is empty: pods keep theirs"), ""
    elsewhere = sorted(
        _where(one) for one in _asking(facts) if one["spec"].get("schedulerName", ours) != ours and not _ended(one)
    )
    if elsewhere:
        asks = phrase("asks for devices of another scheduler: %(which)s", which=_few(elsewhere))
        return ODD, asks, phrase("set schedulerName: %(name)s", name=ours)
    return GOOD, phrase("%(name)s, in every pod that asks for devices", name=ours), ""


def plugins(facts: Facts) -> Finding:
    """One device plugin a node."""
    both = sorted(_name(one) for one in facts.nodes if AGENT in _labels(one) and _fresh_handshake(one, facts.now_s))
    if both:
        twice = phrase("our agent and HAMi's plugin serve the same resource on %(which)s", which=_few(both))
        return BAD, twice, phrase("leave one of them out")
    count = sum(1 for one in facts.nodes if AGENT in _labels(one))
    return GOOD, phrase("one for each node; our agent on %(n)s", n=count), ""


def native_quotas(facts: Facts) -> Finding:
    """ResourceQuotas that limit devices."""
    resources = set(facts.config.resource_names)
    names = sorted(
        f"{_where(one)}"
        for one in facts.quotas
        if any(key.removeprefix("limits.").removeprefix("requests.") in resources for key in _hard(one))
    )
    if names:
        least = phrase("%(n)s count, beside ours, the least of them: %(which)s", n=len(names), which=_few(names))
        return GOOD, least, ""
    return GOOD, phrase("none limits devices"), ""


def bypassed(facts: Facts) -> Finding:
    """Pods on nodes with devices that nobody allocated."""
    allocated = {key for one in facts.config.vendors for key in (one.allocated_key, one.to_allocate_key) if key}
    found = sorted(
        _where(one)
        for one in _asking(facts)
        if one["spec"].get("nodeName") and not _ended(one) and not allocated & set(_annotations(one))
    )
    if found:
        past = phrase(
            "on their nodes without an allocation: %(which)s; their nodes take no new pods with devices",
            which=_few(found),
        )
        return BAD, past, f"kubectl delete pod {found[0].partition('/')[2]} -n {found[0].partition('/')[0]}"
    return GOOD, phrase("every pod with devices has its allocation"), ""


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
        skewed = phrase("ahead of this machine by over %(s)s s: %(which)s", s=SKEW_S, which=_few(ahead))
        return ODD, skewed, phrase("look at NTP there, or here")
    return GOOD, phrase("none is ahead; ages of ours are the database's"), ""


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
        left = phrase("left over or unreadable: %(which)s", which=_few(sorted(old + strange)))
        return ODD, left, f"kubectl annotate node {first} {node_lock.KEY}-"
    return GOOD, phrase("none is older than five minutes"), ""


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


def _few(names: list[str], most: int = 3) -> Said:
    if len(names) <= most:
        return ", ".join(names)
    return phrase("%(which)s and %(n)s more", which=", ".join(names[:most]), n=len(names) - most)
