"""What is played to both API servers about single pods: create, change, bind, delete."""

from __future__ import annotations

from typing import Any

from tests.simulator.exchange import APPLY, JSON_PATCH, MERGE, STRATEGIC, Call, Case, Obj

PODS = "/api/v1/namespaces/{ns}/pods"


def pod(
    name: str = "p", *, limits: Obj | None = None, requests: Obj | None = None, meta: Obj | None = None, **spec: Any
) -> Obj:
    resources = {key: value for key, value in (("limits", limits), ("requests", requests)) if value is not None}
    container = {"name": "c", "image": "fake", "resources": resources}
    metadata = {"name": name, **(meta or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def create(**parts: Any) -> Call:
    return Call("POST", PODS, pod(**parts))


def change(patch: Any, media: str = MERGE, sub: str = "") -> Call:
    return Call("PATCH", f"{PODS}/p{sub}", patch, media)


def bind(node: str = "n", **meta: Any) -> Call:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", **meta},
        "target": {"kind": "Node", "name": node},
    }
    return Call("POST", f"{PODS}/p/binding", body)


GATE = [{"name": "a.io/b"}]
CREATED = (create(),)
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
        }
    }
}
FINALIZED = create(meta={"finalizers": ["a.io/b"]})
DELETE = Call("DELETE", f"{PODS}/p")
BOUND = create(nodeName="n")


def init(**parts: Any) -> Call:
    return create(initContainers=[{"name": "i", "image": "x", **parts}])


CASES = (
    # create
    Case("a plain pod", create()),
    Case("limits without requests", create(limits={"a.io/b": "2000", "cpu": "0.5", "memory": "1024Mi"})),
    Case("requests only", create(requests={"cpu": "100m", "memory": "1e3"})),
    Case("guaranteed", create(limits={"cpu": "1", "memory": "1Gi"})),
    Case(
        "init containers and sidecars",
        create(
            initContainers=[
                {"name": "i", "image": "x:1"},
                {"name": "s", "image": "x:latest", "restartPolicy": "Always"},
            ]
        ),
    ),
    Case("a gate", create(schedulingGates=GATE)),
    Case("a gate and a node", create(schedulingGates=GATE, nodeName="n")),
    Case("the same gate twice", create(schedulingGates=GATE * 2)),
    Case("half a device", create(limits={"a.io/b": "0.5"}), loose=True),
    Case("a negative device", create(limits={"a.io/b": "-1"})),
    Case("a device request without a limit", create(requests={"a.io/b": "1"})),
    Case("a device request that differs from the limit", create(limits={"a.io/b": "2"}, requests={"a.io/b": "1"})),
    Case("more CPU asked than allowed", create(limits={"cpu": "1"}, requests={"cpu": "2"})),
    Case("an amount that is no quantity", create(limits={"a.io/b": "x"}), loose=True),
    Case("an amount beyond 2^63", create(limits={"a.io/b": "8388608Ti"})),
    Case(
        "no containers",
        Call("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}),
    ),
    Case(
        "no image",
        Call(
            "POST",
            PODS,
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}},
        ),
    ),
    Case("two containers of one name", create(initContainers=[{"name": "c", "image": "x"}])),
    Case("a bad container name", create(initContainers=[{"name": "C_", "image": "x"}])),
    Case("a bad pod name", create(name="P_")),
    Case(
        "no name",
        Call(
            "POST",
            PODS,
            {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
        ),
    ),
    Case("a bad restart policy", create(restartPolicy="Sometimes")),
    Case("a long label", create(meta={"labels": {"a": "x" * 64}})),
    Case("a bad label value", create(meta={"labels": {"a": "-x"}})),
    Case("a bad annotation key", create(meta={"annotations": {"a/b/c": "x"}})),
    Case("a label that is a number", create(meta={"labels": {"a": 1}}), loose=True),
    Case(
        "tolerations and selectors", create(nodeSelector={"a": "b"}, tolerations=[{"key": "x", "effect": "NoSchedule"}])
    ),
    Case("a device beyond its limit in an init container", init(resources={"limits": {"a.io/b": "1.5"}}), loose=True),
    Case("a resource that is no name", create(limits={"a_io//b": "1"}), loose=True),
    Case("a resource without a domain", create(limits={"gpu": "1"}), loose=True),
    Case("a gate that is no name", create(schedulingGates=[{"name": "a b"}]), loose=True),
    Case("a privileged container", init(securityContext={"privileged": True})),
    Case("env and ports", init(env=[{"name": "A", "value": ""}], ports=[{"containerPort": 80}])),
    Case("owners", create(meta={"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}]})),
    Case("an unknown priority class", create(priorityClassName="nope")),
    Case("a known priority class", create(priorityClassName="system-node-critical")),
    Case("a revision on create", create(meta={"resourceVersion": "1"})),
    Case("another namespace", create(meta={"namespace": "other"})),
    Case(
        "a wrong kind", Call("POST", PODS, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "p"}}), loose=True
    ),
    Case("a body that is no JSON", Call("POST", PODS, b"{"), loose=True),
    Case("twice", create(), CREATED),
    Case("in no namespace", Call("POST", "/api/v1/namespaces/nowhere-at-all/pods", pod())),
    Case("a dry run", Call("POST", f"{PODS}?dryRun=All", pod())),
    Case("a bad dry run", Call("POST", f"{PODS}?dryRun=Some", pod()), loose=True),
    Case("tolerations of one's own", create(tolerations=[{"operator": "Exists"}])),
    Case("no service account token", create(automountServiceAccountToken=False)),
    # patch and update
    Case("a label", change({"metadata": {"labels": {"a": "b"}}}), CREATED),
    Case("a null", change({"metadata": {"annotations": None}}), (create(meta={"annotations": {"a": "b"}}),)),
    Case("an old revision", change({"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}}), CREATED),
    Case("another uid", change({"metadata": {"uid": "x", "labels": {"a": "b"}}}), CREATED),
    Case("the spec", change({"spec": {"schedulerName": "x"}}), CREATED, loose=True),
    Case("a new image", change({"spec": {"containers": [{"name": "c", "image": "new"}]}}, STRATEGIC), CREATED),
    Case("a new gate", change({"spec": {"schedulingGates": GATE}}), CREATED),
    Case("no gate any more", change({"spec": {"schedulingGates": None}}), (create(schedulingGates=GATE),)),
    Case(
        "no gate, but affinity",
        change({"spec": {"schedulingGates": [], "affinity": AFFINITY}}),
        (create(schedulingGates=GATE),),
    ),
    Case(
        "a condition",
        change({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, STRATEGIC, "/status"),
        CREATED,
    ),
    Case("status on the main path", change({"status": {"phase": "Running"}}), CREATED),
    Case("a JSON patch", change([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}], JSON_PATCH), CREATED),
    Case(
        "a JSON patch that does not apply",
        change([{"op": "replace", "path": "/metadata/labels/a", "value": "b"}], JSON_PATCH),
        CREATED,
    ),
    Case(
        "a JSON patch test that fails",
        change([{"op": "test", "path": "/metadata/name", "value": "b"}], JSON_PATCH),
        CREATED,
        loose=True,
    ),
    Case(
        "a JSON patch that removes nothing",
        change([{"op": "remove", "path": "/metadata/labels"}], JSON_PATCH),
        CREATED,
        loose=True,
    ),
    Case("a patch of no known language", change({}, "application/x"), CREATED, loose=True),
    Case("a patch of nothing there", change({"metadata": {"labels": {"a": "b"}}})),
    Case("applied", Call("PATCH", f"{PODS}/p?fieldManager=m", pod(), APPLY)),
    Case("an update with another name", Call("PUT", f"{PODS}/p", pod(name="q")), CREATED),
    # bind
    Case("a binding", bind(annotations={"a": "b"}, labels={"c": "d"}), CREATED),
    Case(
        "the pod after a binding", Call("GET", f"{PODS}/p"), (*CREATED, bind(annotations={"a": "b"}, labels={"c": "d"}))
    ),
    Case("a second binding", bind("m"), (*CREATED, bind())),
    Case("a binding of another uid", bind(uid="x"), CREATED),
    Case("a binding of an old revision", bind(resourceVersion="1"), CREATED),
    Case("a binding of a gated pod", bind(), (create(schedulingGates=GATE),)),
    Case("a binding without a node", bind(""), CREATED),
    Case("a binding of nothing there", bind()),
    Case("a binding with a long label", bind(labels={"a": "x" * 64}), CREATED, loose=True),
    # delete
    Case("an unbound pod is deleted", DELETE, CREATED),
    Case("a bound pod is deleted", DELETE, (BOUND,)),
    Case("a bound pod after its deletion", Call("GET", f"{PODS}/p"), (BOUND, DELETE)),
    Case("a binding of a pod that goes", bind(), (FINALIZED, DELETE)),
    Case("a deletion of another uid", Call("DELETE", f"{PODS}/p", {"preconditions": {"uid": "x"}}), CREATED),
    Case("a deletion of nothing there", DELETE),
    Case("a deletion held by a finalizer", DELETE, (FINALIZED,)),
    Case("a bound pod is deleted at once", Call("DELETE", f"{PODS}/p?gracePeriodSeconds=0"), (BOUND,)),
    Case("a bound pod is deleted again", Call("DELETE", f"{PODS}/p?gracePeriodSeconds=5"), (BOUND, DELETE)),
    Case("a bound pod is deleted with patience", Call("DELETE", f"{PODS}/p?gracePeriodSeconds=90"), (BOUND, DELETE)),
    Case("a finished pod is deleted", DELETE, (BOUND, change({"status": {"phase": "Succeeded"}}, sub="/status"))),
    Case("a deletion without touching", Call("DELETE", f"{PODS}/p?dryRun=All"), (BOUND,)),
    Case("the last finalizer goes", change({"metadata": {"finalizers": None}}), (FINALIZED, DELETE)),
    Case(
        "a finalizer on a pod that goes",
        change({"metadata": {"finalizers": ["a.io/b", "a.io/c"]}}),
        (FINALIZED, DELETE),
    ),
    Case(
        "an eviction",
        Call("POST", f"{PODS}/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}),
        CREATED,
    ),
)
