"""Shares of Metax GPUs: whose pods share a card, which cards are chosen, what the choice is worth.

| table | rule |
|---|---|
| classes | pods with an application class share with each other only; an offline one never joins an online one |
| policies | a card in use takes pods of its holders' policy |
| zones | whole cards come from the smallest zone that has enough |
| scores | links kept and torn; company of an online pod |
"""

from __future__ import annotations

import pytest

from hami_platform.domain import errors, fit, quota, score
from hami_platform.domain.devices import ContainerKind, Device, Held, Notes
from hami_platform.domain.nodes import DeviceState, NodeState
from hami_platform.domain.reasons import Reason, Rejection
from hami_platform.domain.requests import Constraints, ContainerRequest, DeviceRequest, PodRequest
from hami_platform.domain.strategy import Outcome
from hami_platform.domain.terms import terms_of
from hami_platform.domain.vendors import parse, registry
from hami_platform.domain.vendors.strategies import metax_sgpu

CONFIG = registry.default_config()
WORD = "Metax-SGPU"
CLASS, QOS = metax_sgpu.CLASS_KEY, metax_sgpu.QOS_KEY
WHOLE = 100


def card(name: str, *, zone: int = 0, qos: str = "", index: int = 0, **held: int | Notes) -> DeviceState:
    facts = (("LinkZone", zone), ("QosPolicy", qos))
    device = Device(name, index, WORD, WORD, 64000, 100, slots=16, custom=facts)
    return DeviceState(device, Held(**held))  # type: ignore[arg-type]


def crowded(name: str, *, online: int = 0, offline: int = 0, normal: int = 0, index: int = 0) -> DeviceState:
    """A card with so many pods of each class."""
    notes = ((CLASS, "online"),) * online + ((CLASS, "offline"),) * offline + ((QOS, "best-effort"),) * normal
    pods = online + offline + normal
    return card(name, index=index, slots=pods, memory_mib=1000 * pods, core_percent=0, notes=notes)


def asking(
    app_class: str | None = None, *, count: int = 1, cores: int = 10, containers: int = 1, key: str = "", said: str = ""
) -> PodRequest:
    notes = {QOS: "best-effort"} | ({CLASS: app_class} if app_class else {}) | ({key: said} if key else {})
    ask = DeviceRequest(WORD, count, memory_mib=1000, core_percent=0 if app_class == "online" else cores)
    apps = tuple(ContainerRequest(f"c{i}", ContainerKind.APP, (ask,)) for i in range(containers))
    return PodRequest(apps, Constraints(notes=tuple(sorted(notes.items()))))


def served(request: PodRequest, *cards: DeviceState) -> list[str] | str:
    """The cards chosen, or HAMi's list of reasons."""
    terms = terms_of(request, score.DEFAULTS, quota.UNLIMITED, CONFIG.strategies)
    found = fit.fit(NodeState.of("n", cards), request, terms)
    return found.text() if isinstance(found, Rejection) else [share.uuid for share in found.shares]


@pytest.mark.parametrize(
    "app_class, company, fits",
    [
        ("online", {}, True),
        ("offline", {}, True),
        (None, {}, True),
        (None, {"online": 1}, False),
        (None, {"offline": 1}, False),
        (None, {"normal": 1}, True),
        ("online", {"normal": 1}, False),
        ("offline", {"normal": 1}, False),
        ("online", {"online": 1, "offline": 1}, True),
        ("online", {"offline": 2}, True),
        ("offline", {"online": 1}, False),
        ("offline", {"online": 1, "offline": 1}, False),
        ("offline", {"offline": 3}, True),
    ],
)
def test_classes_share_cards_with_each_other_only(app_class: str | None, company: dict[str, int], fits: bool) -> None:
    expected = ["c"] if fits else f"1/1 {Reason.CARD_APP_CLASS_MISMATCH.value}"
    assert served(asking(app_class), crowded("c", **company)) == expected


def test_a_hold_of_a_person_has_no_class() -> None:
    held = card("c", slots=1, memory_mib=100, core_percent=0)
    assert served(asking("online"), held) == "1/1 CardAppClassMismatch"
    assert served(asking(), held) == ["c"]


@pytest.mark.parametrize("app_class", ["online", "offline", None])
def test_containers_of_one_pod_may_share_a_card(app_class: str | None) -> None:
    assert served(asking(app_class, containers=2), card("c", qos="burst-share")) == ["c", "c"]


def test_an_online_pod_takes_no_cores_and_looks_at_none() -> None:
    full = card("c", slots=2, memory_mib=1000, core_percent=100, notes=((CLASS, "offline"), (CLASS, "offline")))
    assert served(asking("online"), full) == ["c"]
    assert served(asking("offline"), full) == "1/1 CardInsufficientCore"
    no_room = card("c", slots=2, memory_mib=64000, core_percent=100, notes=((CLASS, "offline"),))
    assert served(asking("online"), no_room) == "1/1 CardInsufficientMemory"


@pytest.mark.parametrize(
    "best, others",
    [
        ({}, [{"online": 1}, {"online": 1, "offline": 1}, {"offline": 1}]),
        ({"online": 1}, [{"online": 2}, {"online": 3, "offline": 1}, {"offline": 1}]),
        ({"online": 1, "offline": 1}, [{"online": 3}, {"online": 2, "offline": 1}, {"offline": 1}]),
        ({"offline": 1}, [{"offline": 2}, {"offline": 3}]),
    ],
)
def test_an_online_pod_goes_where_it_is_least_disturbed(best: dict[str, int], others: list[dict[str, int]]) -> None:
    for place in range(len(others) + 1):
        cards = [crowded(f"other-{i}", index=i, **one) for i, one in enumerate(others)]
        cards.insert(place, crowded("best", index=place, **best))
        assert served(asking("online"), *cards) == ["best"]


@pytest.mark.parametrize(
    "company, expected",
    [({}, 0), ({"online": 2}, -40), ({"offline": 2}, -200), ({"online": 2, "offline": 2}, -44)],
)
def test_company_counts_against_a_node_for_an_online_pod(company: dict[str, int], expected: int) -> None:
    assert node_score(asking("online"), ["c"], crowded("c", **company)) == expected


def node_score(request: PodRequest, given: list[str], *cards: DeviceState) -> float:
    """The vendor's part of the node score where these cards are given."""
    strategy = CONFIG.strategies[WORD]
    node = NodeState.of("n", cards)
    ask = request.containers[0].devices[0]
    terms = terms_of(request, score.DEFAULTS, quota.UNLIMITED, CONFIG.strategies)
    only = NodeState.of("n", [state for state in cards if state.device.uuid in given])
    asked = PodRequest(
        (ContainerRequest("c", ContainerKind.APP, (DeviceRequest(WORD, len(given), 1000, None, ask.core_percent),)),),
        request.constraints,
    )
    found = fit.fit(only, asked, terms)
    assert isinstance(found, fit.Fitted)
    assert strategy.score is not None
    return strategy.score(Outcome(node, found.shares, request.constraints, spreads=False))


@pytest.mark.parametrize(
    "cores, registered, held, said, fits",
    [
        (50, "burst-share", 0, "", True),
        (50, "burst-share", 1, "", False),
        (50, "best-effort", 1, "", True),
        (50, "", 1, "", True),
        (50, "burst-share", 1, "best-effort", True),
        (50, "best-effort", 1, "fixed-share", False),
        (100, "burst-share", 1, "", False),
        (100, "burst-share", 0, "", True),
    ],
)
def test_a_card_in_use_takes_pods_of_its_holders_policy(
    cores: int, registered: str, held: int, said: str, fits: bool
) -> None:
    state = card("c", qos=registered, slots=held, notes=((QOS, said),) if said else ())
    refused = "ExclusiveDeviceAllocateConflict" if cores == WHOLE else "CardQosPolicyMismatch"
    assert served(asking(cores=cores), state) == (["c"] if fits else f"1/1 {refused}")


def test_a_card_that_one_pod_has_whole_refuses_for_its_cores() -> None:
    state = card("c", slots=1, core_percent=100, notes=((QOS, "fixed-share"),))
    assert served(asking(), state) == "1/1 CardInsufficientCore"


ZONES = [
    (1, {1: [1, 2], 2: [5]}, {5}),
    (2, {1: [1, 2], 2: [5, 6, 7]}, {1, 2}),
    (4, {1: [1, 2], 2: [5, 6, 7, 8]}, {5, 6, 7, 8}),
    (4, {1: [1, 2], 2: [5, 6, 7]}, {1, 2, 5, 6}),
    (2, {0: [3, 4], 1: [7, 8]}, {7, 8}),
    (4, {0: [3, 4], 1: [6, 7, 8]}, {6, 7, 8, 3}),
]


@pytest.mark.parametrize("listed", [1, -1])
@pytest.mark.parametrize("count, zones, expected", ZONES)
def test_whole_cards_come_from_the_smallest_zone_that_has_enough(
    count: int, zones: dict[int, list[int]], expected: set[int], listed: int
) -> None:
    """Within a zone the policy's order decides: the highest index first. Where the node lists its cards does not."""
    cards = [card(f"{i}", zone=zone, index=-i) for zone, indexes in zones.items() for i in indexes]
    found = served(asking(count=count, cores=WHOLE), *cards[::listed])
    assert {int(name) for name in found} == expected


@pytest.mark.parametrize("app_class", ["offline", None])
def test_zones_do_not_count_for_parts_of_cards_or_for_classes(app_class: str | None) -> None:
    cards = [card("near", zone=1, index=0), card("far-a", zone=2, index=1), card("far-b", zone=2, index=2)]
    cores = WHOLE if app_class else 50
    assert served(asking(app_class, cores=cores), *cards) == ["far-b"]


@pytest.mark.parametrize(
    "idle, busy, given, expected",
    [
        ({1: [4]}, [1, 2, 3], [4], 0),
        ({1: [1, 2, 3, 4]}, [], [4], -30),
        ({1: [1, 2, 3, 4]}, [], [3, 4], 60),
        ({1: [4], 2: [5]}, [1, 2, 3, 6, 7, 8], [4, 5], 0),
        ({1: [1, 2, 3, 4], 2: [5]}, [], [1, 2, 3, 4], 600),
        ({1: [2, 3, 4], 2: [5, 6]}, [], [3, 4, 5, 6], 180),
        ({1: [1, 2, 3, 4], 2: [5, 6, 7, 8]}, [], [1, 2, 3, 4, 5, 6, 7, 8], 1200),
    ],
)
def test_links_kept_count_for_a_node_and_links_torn_against(
    idle: dict[int, list[int]], busy: list[int], given: list[int], expected: int
) -> None:
    cards = [card(f"{i}", zone=zone, index=i) for zone, indexes in idle.items() for i in indexes]
    cards += [card(f"{i}", zone=9, index=i, slots=1, core_percent=100) for i in busy]
    aware = asking(cores=WHOLE, key=metax_sgpu.TOPOLOGY_KEY, said="true")
    assert node_score(aware, [str(i) for i in given], *cards) == expected


def pod(notes: dict[str, str], **limits: str) -> dict[str, object]:
    names = {"count": "metax-tech.com/sgpu", "cores": "metax-tech.com/vcore", "memory": "metax-tech.com/vmemory"}
    resources = {"limits": {names[name]: amount for name, amount in limits.items()}}
    return {"metadata": {"annotations": notes}, "spec": {"containers": [{"name": "main", "resources": resources}]}}


@pytest.mark.parametrize(
    "notes, count, words",
    [
        ({CLASS: "sometimes"}, "1", r"container main: .*sgpu-app-class: must be set one of \[online, offline\]"),
        ({CLASS: ""}, "1", "must be set one of"),
        ({CLASS: "online"}, "2", "app-class pod must request single device"),
        ({CLASS: "offline", QOS: "best"}, "1", r"sgpu-qos-policy: must be set one of \[best-effort, "),
    ],
)
def test_a_class_that_cannot_be_served_is_refused_by_its_key(notes: dict[str, str], count: str, words: str) -> None:
    vendor = CONFIG.vendor(WORD)
    (declared,) = parse.declared(pod(notes, count=count))
    assert vendor.rules is not None
    with pytest.raises(errors.RequestError, match=words) as caught:
        vendor.rules(vendor, declared, notes)
    assert caught.value.key in (CLASS, QOS)


@pytest.mark.parametrize(
    "app_class, added", [(None, {QOS: "best-effort"}), ("offline", {QOS: "best-effort"}), ("online", {})]
)
def test_every_pod_but_an_online_one_has_a_policy(app_class: str | None, added: dict[str, str]) -> None:
    notes = {CLASS: app_class} if app_class else {}
    vendor = CONFIG.vendor(WORD)
    (declared,) = parse.declared(pod(notes, count="1"))
    assert vendor.rules is not None
    assert vendor.rules(vendor, declared, notes).annotations == added


@pytest.mark.parametrize("app_class, cores", [("online", 0), ("offline", 30), (None, 30)])
def test_an_online_pod_asks_for_no_cores(app_class: str | None, cores: int) -> None:
    notes = {CLASS: app_class} if app_class else {}
    request = parse.pod_request(pod(notes, count="1", cores="30"), CONFIG)
    assert [ask.core_percent for ask in request.containers[0].devices] == [cores]


def test_a_pod_that_holds_cards_without_asking_any_more_keeps_its_class() -> None:
    notes = {CLASS: "offline", "hami.io/metax-sgpu-devices-allocated": "c,Metax-SGPU,1000,10:;"}
    request = parse.pod_request(pod(notes), CONFIG)
    assert not request.asks
    assert request.constraints.of(WORD).note(CLASS) == "offline"


@pytest.mark.parametrize(
    "limits, expected",
    [
        ({}, (1, 0, 100, 100)),
        ({"cores": "30"}, (1, 0, 100, 30)),
        ({"memory": "16"}, (1, 16384, None, 100)),
        ({"memory": "1024Mi"}, (1, 1024, None, 100)),
        ({"memory": "16Gi"}, (1, 16384, None, 100)),
    ],
)
def test_memory_without_a_unit_counts_gibibytes(limits: dict[str, str], expected: tuple[int | None, ...]) -> None:
    (ask,) = parse.pod_request(pod({}, count="1", **limits), CONFIG).containers[0].devices
    assert (ask.count, ask.memory_mib, ask.memory_percent, ask.core_percent) == expected


@pytest.mark.parametrize("limits", [{"memory": "2100001"}, {"count": "2200000000"}, {"cores": "2200000000"}])
def test_an_amount_out_of_range_is_refused_and_never_dropped(limits: dict[str, str]) -> None:
    with pytest.raises(errors.RequestError):
        parse.pod_request(pod({}, **({"count": "1"} | limits)), CONFIG)


@pytest.mark.parametrize("count, spreads, expected", [(2, False, 1800.0), (1, True, 1900.0), (3, False, 2000.0)])
def test_a_number_of_whole_gpus_is_worth_what_its_node_says(count: int, spreads: bool, expected: float) -> None:
    table = '{"1":100,"2":200}'
    facts = (("gpu.topology.losses", table), ("gpu.topology.scores", table))
    word = "Metax-GPU"
    states = [DeviceState(Device(f"m{i}", i, word, word, 65536, 100, slots=1, custom=facts)) for i in range(3)]
    containers = (ContainerRequest("c", ContainerKind.APP, (DeviceRequest(word, count, 0, 100, 100),)),)
    request, node = PodRequest(containers), NodeState.of("n", states)
    found = fit.fit(node, request, terms_of(request, score.DEFAULTS, quota.UNLIMITED, CONFIG.strategies))
    assert isinstance(found, fit.Fitted)
    strategy = CONFIG.strategies[word]
    assert strategy.score is not None
    assert strategy.score(Outcome(node, found.shares, request.constraints, spreads)) == expected
