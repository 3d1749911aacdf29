"""Every malformed value that HAMi's formats can carry, and the answer to it.

| table | values of | answer |
|---|---|---|
| AMOUNTS | resources of every vendor | refused, the key named (D11); nothing is rounded, clamped or dropped |
| LISTS | use and no-use lists of every vendor | blank: no constraint; commas alone: an empty list |
| WIRE | annotations of pods and nodes | refused by the codec, or what is read |
| NODES | registrations and capacities of every vendor | so many devices, or "unreadable": those known stay |
| HARD | keys and amounts of ResourceQuotas | ignored, or the limit |

Policies, handshakes and configuration files have tables beside their own tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from accounting.services import native_quotas, node_seen
from hami_platform.domain import errors
from hami_platform.domain.vendors import base, parse, registry
from hami_platform.domain.wire import mig_allocations, node_lock, node_register, pair_scores, pod_devices, weights

CONFIG = registry.default_config()
REFUSED = "refused"
UNREADABLE = "unreadable"


def pod(limits: dict[str, str], notes: dict[str, str] | None = None) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"limits": limits}}]
    return {"metadata": {"annotations": notes or {}}, "spec": {"containers": containers}}


# -- amounts -----------------------------------------------------------------------------------------------------

AMOUNTS = ("-1", "1.5", "0.5", "1.0", "1500m", "x", "", " 1", "0x1", "1_0", "٣", "NaN", "1e40", "4294967297", "1E")
RESOURCES = [(vendor, name) for vendor in CONFIG.vendors for name, _ in vendor.resources.named()]
BYTES = {("metax-tech.com/vmemory", "1500m"), ("metax-tech.com/vmemory", "4294967297")}
"""Its memory is in bytes where a letter stands in it (spelled so in HAMi)."""


@pytest.mark.parametrize("amount", AMOUNTS)
def test_an_amount_that_is_no_number_of_anything_is_refused_by_its_key(amount: str) -> None:
    for vendor, name in RESOURCES:
        if (name, amount) in BYTES and amount == "1500m":
            continue
        with pytest.raises(errors.RequestError) as refused:
            parse.pod_request(pod({vendor.resources.count: "1", name: amount}), CONFIG)
        assert refused.value.key == name, (name, amount)
        assert name in str(refused.value)


# -- lists -------------------------------------------------------------------------------------------------------

LISTS = [(" ", None), ("", None), ("\t\n", None), (",", ()), (" , ,", ()), (" a ,,b", ("a", "b")), ("A", ("A",))]


def _list_keys() -> list[tuple[base.Vendor, str, str]]:
    kinds = ("use_uuids", "nouse_uuids", "use_models", "nouse_models")
    found = [(vendor, kind, getattr(vendor.selection, kind)) for vendor in CONFIG.vendors for kind in kinds]
    return [one for one in found if one[2]]


@pytest.mark.parametrize("text, entries", LISTS)
def test_a_list_of_devices_is_trimmed_and_blank_is_no_list(text: str, entries: tuple[str, ...] | None) -> None:
    for vendor, kind, key in _list_keys():
        read = parse.pod_request(pod({vendor.resources.count: "1"}, {key: text}), CONFIG)
        assert getattr(read.constraints, kind) == entries, (vendor.word, key)


# -- annotations -------------------------------------------------------------------------------------------------


def register(text: str) -> Any:
    return [(one.uuid, one.index, one.memory_mib, one.healthy) for one in node_register.decode(text, vendor="NVIDIA")]


def rows(text: str) -> Any:
    return [[tuple(one) for one in row] for row in pod_devices.decode(text)]


def lock(text: str) -> Any:
    found = node_lock.decode(text)
    return found.at_s, found.namespace, found.name


def mig(text: str) -> Any:
    return [(one.container_index, one.profile, one.runtime is not None) for one in mig_allocations.decode(text)]


def ratio(text: str) -> Any:
    found = weights.decode(text)
    return found.slot, found.core, found.memory


def card(**members: str) -> str:
    given = {"id": '"a"', "count": "1", "devmem": "2", "devcore": "3", "type": '"T"'} | members
    return "[{" + ",".join(f'"{key}":{value}' for key, value in given.items() if value) + "}]"


def instance(**members: str) -> str:
    given = {"containerIndex": "0", "deviceIndex": "0", "gpuUUID": '"a"', "profile": '"p"'}
    given = given | {"placement": '{"start":6,"size":1}'} | members
    return "{" + ",".join(f'"{key}":{value}' for key, value in given.items() if value) + "}"


A = ("a", "N", 1, 2)
READERS: dict[str, Callable[[str], Any]] = {
    "rows": rows, "register": register, "scores": pair_scores.decode, "mig": mig, "lock": lock, "weights": ratio,
}  # fmt: skip
WIRE: list[tuple[str, str, Any]] = [
    # spec 1.3: the allocation of a pod
    ("rows", "", []),
    ("rows", ";", [[]]),
    ("rows", ";;", [[], []]),
    ("rows", "a,N,1,2:;", [[A]]),
    ("rows", "a,N,1,2:", [[A]]),
    ("rows", "a,N,1,2", [[A]]),
    ("rows", "a,N,1,2:a,N,1,2:;", [[A, A]]),
    ("rows", "a,N,1,2,more,fields:;", [[A]]),
    ("rows", "::a,N,1,2::;", [[A]]),
    ("rows", ",,0,0:;", [[]]),
    ("rows", "a,N,1:;", REFUSED),
    ("rows", "a:;", REFUSED),
    ("rows", "junk", REFUSED),
    ("rows", ",N,1,2:;", REFUSED),
    ("rows", "a,,1,2:;", REFUSED),
    ("rows", "a,N,-1,2:;", REFUSED),
    ("rows", "a,N,1,-2:;", REFUSED),
    ("rows", "a,N,x,2:;", REFUSED),
    ("rows", "a,N,1.5,2:;", REFUSED),
    ("rows", "a,N,,2:;", REFUSED),
    ("rows", "a,N,2147483648,2:;", REFUSED),
    ("rows", "a,N,1,99999999999999999999:;", REFUSED),
    ("rows", "a\0,N,1,2:;", REFUSED),
    # spec 1.4: the devices of a node, as JSON
    ("register", card(), [("a", 0, 2, False)]),
    ("register", card(health="true"), [("a", 0, 2, True)]),
    ("register", card(health="null", index="null"), [("a", 0, 2, False)]),
    ("register", '[{"ID":"a","DevMem":2,"unheard":[1]}]', [("a", 0, 2, False)]),
    ("register", "[]", []),
    ("register", "null", []),
    ("register", "", REFUSED),
    ("register", "{}", REFUSED),
    ("register", "[1]", REFUSED),
    ("register", "[", REFUSED),
    ("register", "[{}]", REFUSED),
    ("register", card(id='""'), REFUSED),
    ("register", card(id="1"), REFUSED),
    ("register", card()[:-1] + "," + card()[1:], REFUSED),
    ("register", card(devmem='"2"'), REFUSED),
    ("register", card(devmem="2.0"), REFUSED),
    ("register", card(devmem="1e3"), REFUSED),
    ("register", card(devmem="-1"), REFUSED),
    ("register", card(devmem="2147483648"), REFUSED),
    ("register", card(devcore="true"), REFUSED),
    ("register", card(index="-1"), REFUSED),
    ("register", card(count="-1"), REFUSED),
    ("register", card(health='"yes"'), REFUSED),
    ("register", card(numa="2147483648"), REFUSED),
    ("register", card(migProfiles='"x"'), REFUSED),
    ("register", card(migProfiles="[{}]"), [("a", 0, 2, False)]),
    ("register", card(migProfiles='[{"name":"p","placements":[{"start":-1,"size":1}]}]'), REFUSED),
    # spec 1.4: the same as text
    ("register", "a,1,2,3,T,0,true:", [("a", 0, 2, True)]),
    ("register", "a,1,2,3,T,0,true,5,hami-core:", [("a", 5, 2, True)]),
    ("register", ":", []),
    ("register", "::", []),
    ("register", "a,1,2,3,T,0,true", REFUSED),
    ("register", "a,1,2,3,T,0:", REFUSED),
    ("register", "a,1,2,3,T,0,true,5:", REFUSED),
    ("register", "a,1,2,3,T,0,true,5,m,more:", REFUSED),
    ("register", "a,1,2,3,T,0,true:junk:", REFUSED),
    ("register", "a,x,2,3,T,0,true:", REFUSED),
    ("register", "a,1,2.5,3,T,0,true:", REFUSED),
    ("register", "a,1,2,3,T,x,true:", REFUSED),
    ("register", "a,1,2,3,T,0,maybe:", REFUSED),
    ("register", "a,1,2,3,T,0,true,-1,m:", REFUSED),
    ("register", "a,1,2147483648,3,T,0,true:", REFUSED),
    # spec 1.5: pair scores
    ("scores", "[]", {}),
    ("scores", "null", {}),
    ("scores", '[{"uuid":"a"}]', {}),
    ("scores", '[{"uuid":"a","score":{"b":-1}}]', {("a", "b"): -1}),
    ("scores", '[{"uuid":"a","score":{"b":"1"}}]', REFUSED),
    ("scores", '[{"uuid":"a","score":{"b":1.5}}]', REFUSED),
    ("scores", '[{"uuid":1}]', REFUSED),
    ("scores", '{"uuid":"a"}', REFUSED),
    ("scores", "", REFUSED),
    # spec 1.6: MIG reservations
    ("mig", "", []),
    ("mig", "null", []),
    ("mig", f"[{instance()}]", [(0, "p", False)]),
    ("mig", f"[{instance(migUUID='null')}]", [(0, "p", False)]),
    (
        "mig",
        f"[{instance(migUUID=chr(34) + 'm' + chr(34), gpuInstanceID='0', computeInstanceID='0')}]",
        [(0, "p", True)],
    ),
    ("mig", f"[{instance(gpuInstanceID='0')}]", REFUSED),
    ("mig", f"[{instance(gpuInstanceID='0', computeInstanceID='0')}]", REFUSED),
    ("mig", f"[{instance(containerIndex='-1')}]", REFUSED),
    ("mig", f"[{instance(deviceIndex='-1')}]", REFUSED),
    ("mig", f"[{instance(gpuUUID=chr(34) * 2)}]", REFUSED),
    ("mig", f"[{instance(profile='')}]", REFUSED),
    ("mig", f"[{instance(placement='')}]", REFUSED),
    ("mig", f"[{instance(placement='{}')}]", REFUSED),
    ("mig", f"[{instance()},{instance()}]", REFUSED),
    ("mig", "{}", REFUSED),
    ("mig", "[", REFUSED),
    # spec 1.7: the lock of a node
    ("lock", "2024-01-10T04:06:57Z", (1704859617, "", "")),
    ("lock", "2024-01-10T12:06:57+08:00,a,b", (1704859617, "a", "b")),
    ("lock", "2024-01-10T04:06:57Z,a", REFUSED),
    ("lock", "2024-01-10T04:06:57Z,a,b,c", REFUSED),
    ("lock", "2024-01-10T04:06:57,a,b", REFUSED),
    ("lock", "2024-01-10 04:06:57Z,a,b", REFUSED),
    ("lock", "1704859617,a,b", REFUSED),
    ("lock", "2024-13-01T00:00:00Z,a,b", REFUSED),
    ("lock", "", REFUSED),
    # spec 1.8: weights
    ("weights", "slot=1,core=2,memory=3", (1, 2, 3)),
    ("weights", " memory = 3, slot = 1, core = 0 ", (1, 0, 3)),
    ("weights", "slot=1,memory=3", REFUSED),
    ("weights", "slot=1,core,memory=3", REFUSED),
    ("weights", "slot=1,core=high,memory=3", REFUSED),
    ("weights", "slot=1,core=-1,memory=3", REFUSED),
    ("weights", "slot=1,bandwidth=2,memory=3", REFUSED),
    ("weights", "slot=1,slot=1,memory=3", REFUSED),
    ("weights", "slot=0,core=0,memory=0", REFUSED),
    ("weights", "slot=1,core=1,memory=1,x=1", REFUSED),
    ("weights", "", REFUSED),
]


@pytest.mark.parametrize("reader, text, answer", WIRE)
def test_what_is_read_of_an_annotation(reader: str, text: str, answer: Any) -> None:
    if answer == REFUSED:
        with pytest.raises(errors.WireError):
            READERS[reader](text)
    else:
        assert READERS[reader](text) == answer


# -- nodes -------------------------------------------------------------------------------------------------------

XPU, DCU, AMD, METAX, DRS = (
    "hami.io/node-register-xpu", "hami.io/node-dcu-register", "hami.io/node-amd-register",
    "metax-tech.com/node-gpu-devices", "enflame.com/gcu-drs-capacity",
)  # fmt: skip
OLD = "a,1,2,3,T,0,true:"
SGPU = '[{"uuid":"M","model":"C500","totalDevCount":16,"totalCompute":100,"totalVRam":65536,"healthy":true}]'
SLICES = '{"devices":[{"index":"0","minor":"0","capacity":6}],"profiles":{"1g.6gb":"0"}}'
TEXTS: list[tuple[str, str, str, Any]] = [
    *(("XPU", XPU, text, answer) for text, answer in ((OLD, 1), (card(), 1), ("junk", UNREADABLE), ("", 0), ("[]", 0))),
    *(("DCU", DCU, text, answer) for text, answer in ((OLD, 1), (OLD * 2, UNREADABLE), ("a,1,2:", UNREADABLE))),
    *(
        ("AMD", AMD, text, answer)
        for text, answer in ((card(), 1), (card(devcore="-1"), UNREADABLE), ("{", UNREADABLE))
    ),
    ("Metax-SGPU", METAX, SGPU, 1),
    ("Metax-SGPU", METAX, SGPU.replace("65536", "-1"), UNREADABLE),
    ("Metax-SGPU", METAX, SGPU.replace("65536", '"65536"'), UNREADABLE),
    ("Metax-SGPU", METAX, SGPU.replace("true", '"true"'), UNREADABLE),
    ("Metax-SGPU", METAX, SGPU.replace('"M"', "7"), UNREADABLE),
    ("Metax-SGPU", METAX, "{}", UNREADABLE),
    ("Metax-SGPU", METAX, "[1]", UNREADABLE),
    ("Metax-SGPU", METAX, "[", UNREADABLE),
    ("Metax-SGPU", METAX, "[]", UNREADABLE),
    ("Enflame", DRS, SLICES, 1),
    ("Enflame", DRS, SLICES.replace("6}", '"6"}'), 1),
    ("Enflame", DRS, SLICES.replace("6}", "0}"), UNREADABLE),
    ("Enflame", DRS, SLICES.replace("6}", "-1}"), UNREADABLE),
    ("Enflame", DRS, SLICES.replace("6}", '"x"}'), UNREADABLE),
    ("Enflame", DRS, SLICES.replace("6}", "null}"), UNREADABLE),
    ("Enflame", DRS, SLICES.replace("6}", "1e999}"), UNREADABLE),
    ("Enflame", DRS, SLICES.replace('{"1g.6gb":"0"}', "[]"), 1),
    ("Enflame", DRS, SLICES.replace('{"1g.6gb":"0"}', "[1]"), UNREADABLE),
    ("Enflame", DRS, '{"devices":[{"index":"0","capacity":6},{"index":"0","capacity":6}]}', UNREADABLE),
    ("Enflame", DRS, '{"devices":{}}', UNREADABLE),
    ("Enflame", DRS, "[]", UNREADABLE),
    ("Enflame", DRS, "{}", 0),
]


@pytest.mark.parametrize("word, key, text, answer", TEXTS)
def test_what_is_read_of_a_registration(word: str, key: str, text: str, answer: Any) -> None:
    found = node_seen.from_object({"metadata": {"name": "n", "annotations": {key: text}}}, CONFIG)
    if answer == UNREADABLE:
        assert (found.unreadable, found.devices) == ((word,), ())
        assert word in found.problem
    else:
        assert found.unreadable == ()
        assert len([one for one in found.devices if one.vendor == word]) == answer


CAPACITIES = [("2", 2), ("0", 0), ("-1", 0), ("x", 0), ("", 0), ("1.5", 2), ("1500m", 2), ("1E", 1024)]
COUNTED = {"kunlun": "kunlunxin.com/xpu", "GCU": "enflame.com/gcu", "Metax-GPU": "metax-tech.com/gpu"}


@pytest.mark.parametrize("word", COUNTED)
@pytest.mark.parametrize("amount, cards", CAPACITIES)
def test_cards_are_made_up_of_a_capacity_that_is_one(word: str, amount: str, cards: int) -> None:
    """Read as Kubernetes' Value() does: rounded up; what is no quantity is no capacity."""
    node = {"metadata": {"name": "n"}, "status": {"capacity": {COUNTED[word]: amount}}}
    assert len([one for one in node_seen.from_object(node, CONFIG).devices if one.vendor == word]) == cards


CORDONS = [("", set()), (" ", set()), (",", set()), (" a ,, b ", {"a", "b"}), ("a", {"a"})]


@pytest.mark.parametrize("text, uuids", CORDONS)
def test_a_cordon_lists_uuids(text: str, uuids: set[str]) -> None:
    found = node_seen.from_object({"metadata": {"name": "n", "annotations": {"hami.io/device-cordon": text}}}, CONFIG)
    assert found.cordoned == uuids


# -- quotas ------------------------------------------------------------------------------------------------------

HARD = [
    ("limits.nvidia.com/gpumem", "100", 100),
    ("limits.nvidia.com/gpumem", "0", 0),
    ("limits.nvidia.com/gpumem", "24Gi", 25769803776),
    ("limits.nvidia.com/gpumem", "1.5", None),
    ("limits.nvidia.com/gpumem", "1500m", None),
    ("limits.nvidia.com/gpumem", "x", None),
    ("limits.nvidia.com/gpumem", "", None),
    ("limits.nvidia.com/gpumem", "1E", 10**18),
    ("limits.nvidia.com/gpumem", "-5", -5),
    ("limits.cambricon.com/mlu.smlu.vmemory", "1E", 2**63 - 1),
    ("limits.nvidia.com/gpumem", "10E", None),
    ("requests.nvidia.com/gpumem", "100", None),
    ("nvidia.com/gpumem", "100", None),
    ("limits.nvidia.com/gpu", "100", None),
    ("limits.nvidia.com/gpumem-percentage", "100", None),
    ("limits.unheard.of/mem", "100", None),
    ("limits.", "100", None),
    ("0123456", "100", None),
]


@pytest.mark.parametrize("key, amount, limit", HARD)
def test_what_is_read_of_a_resourcequota(key: str, amount: str, limit: int | None) -> None:
    quota = {"metadata": {"namespace": "ns", "name": "q"}, "spec": {"hard": {key: amount}}}
    found = [value for _, value in native_quotas.limits_of(quota, CONFIG).values()]
    assert found == ([] if limit is None else [limit])
