"""What is played to both API servers besides single pods: lists, watches, other resources, other forms."""

from __future__ import annotations

from typing import Any

from tests.simulator.exchange import Call, Case
from tests.simulator.exchange_pods import CREATED, PODS, create, pod

QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q"},
    "spec": {"hard": {"limits.a.io/b": "20Gi"}},
}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "l"},
    "spec": {"holderIdentity": "a"},
}
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
EVENT = {
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "name": "p"},
    "reason": "R",
    "message": "m",
    "type": "Normal",
}
EVENT_V1 = {
    "metadata": {"name": "e"},
    "regarding": {"kind": "Pod", "name": "p"},
    "reason": "R",
    "note": "m",
    "type": "Normal",
    "action": "A",
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "c",
    "reportingInstance": "i",
}


def hook(**parts: Any) -> Call:
    """A dry run, so that no other case meets the webhook."""
    entry = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **parts,
    }
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    return Call("POST", f"{HOOKS}?dryRun=All", {**body, "metadata": {"name": "h"}, "webhooks": [entry]})


CASES = (
    # read
    Case("a missing pod", Call("GET", f"{PODS}/nope")),
    Case("an unknown resource", Call("GET", "/api/v1/namespaces/{ns}/nopes"), loose=True),
    Case("an empty list", Call("GET", PODS)),
    Case("a list", Call("GET", PODS), CREATED),
    Case("a page", Call("GET", f"{PODS}?limit=1"), (create(), create(name="q"))),
    Case("a bad field selector", Call("GET", f"{PODS}?fieldSelector=spec.foo%3D1")),
    Case("a bad label selector", Call("GET", f"{PODS}?labelSelector=a%3D%3D%3D"), loose=True),
    Case("a future revision", Call("GET", f"{PODS}?resourceVersion=99999999999"), loose=True),
    Case("a bad continue token", Call("GET", f"{PODS}?limit=1&continue=xx"), loose=True),
    # other resources
    Case("a quota", Call("POST", "/api/v1/namespaces/{ns}/resourcequotas", QUOTA)),
    Case(
        "a quota is deleted",
        Call("DELETE", "/api/v1/namespaces/{ns}/resourcequotas/q"),
        (Call("POST", "/api/v1/namespaces/{ns}/resourcequotas", QUOTA),),
        loose=True,
    ),
    Case("a namespace", Call("GET", "/api/v1/namespaces/{ns}")),
    Case("a namespace is deleted", Call("DELETE", "/api/v1/namespaces/{ns}"), CREATED),
    Case(
        "a pod in a namespace that goes",
        create(),
        (create(name="held", meta={"finalizers": ["a.io/b"]}), Call("DELETE", "/api/v1/namespaces/{ns}")),
    ),
    Case("a service account", Call("GET", "/api/v1/namespaces/{ns}/serviceaccounts/default")),
    Case(
        "a config map",
        Call("POST", "/api/v1/namespaces/{ns}/configmaps", {"metadata": {"name": "a"}, "data": {"b": "c"}}),
    ),
    Case("an event", Call("POST", "/api/v1/namespaces/{ns}/events", EVENT)),
    Case("an event of the second API", Call("POST", "/apis/events.k8s.io/v1/namespaces/{ns}/events", EVENT_V1)),
    Case(
        "an event of the second API in the first",
        Call("GET", "/api/v1/namespaces/{ns}/events/e"),
        (Call("POST", "/apis/events.k8s.io/v1/namespaces/{ns}/events", EVENT_V1),),
    ),
    Case("pods are deleted together", Call("DELETE", PODS), CREATED),
    # other forms
    Case("a table", Call("GET", PODS, accept=TABLE), (create(nodeName="n"),)),
    Case("a table of one", Call("GET", f"{PODS}/p", accept=TABLE), CREATED),
    Case("a table of namespaces", Call("GET", "/api/v1/namespaces/{ns}", accept=TABLE)),
    Case("a table of quotas", Call("GET", "/api/v1/namespaces/{ns}/resourcequotas", accept=TABLE)),
    Case("a list of no revision", Call("GET", f"{PODS}?resourceVersion=abc"), loose=True),
    Case("a list at revision 0", Call("GET", f"{PODS}?resourceVersion=0"), loose=True),
    Case(
        "a list at exactly revision 1", Call("GET", f"{PODS}?resourceVersion=1&resourceVersionMatch=Exact"), loose=True
    ),
    Case(
        "a table of events",
        Call("GET", "/api/v1/namespaces/{ns}/events?fieldSelector=metadata.name%3Dnone", accept=TABLE),
    ),
    Case(
        "metadata only",
        Call("GET", f"{PODS}/p", accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
        CREATED,
    ),
    Case(
        "metadata of a list",
        Call("GET", PODS, accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
        CREATED,
    ),
    Case("a form that nobody serves", Call("GET", PODS, accept="application/x"), loose=True),
    Case("a watch from the beginning", Call("GET", f"{PODS}?watch=1&timeoutSeconds=1"), CREATED),
    Case(
        "a watch of one",
        Call("GET", f"{PODS}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dp"),
        (create(), create(name="q")),
    ),
    Case("a watch too far back", Call("GET", f"{PODS}?watch=1&timeoutSeconds=1&resourceVersion=abc"), loose=True),
    Case(
        "a watch with its list",
        Call(
            "GET",
            f"{PODS}?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        ),
        CREATED,
    ),
    Case(
        "a watch with its list but no match",
        Call("GET", f"{PODS}?watch=1&timeoutSeconds=1&sendInitialEvents=true"),
        loose=True,
    ),
    Case("core versions", Call("GET", "/api"), loose=True),
    Case("a group", Call("GET", "/apis/coordination.k8s.io/v1/nopes"), loose=True),
    Case("an unknown group", Call("GET", "/apis/nope.io"), loose=True),
    Case("a lease", Call("POST", LEASES, LEASE)),
    Case("a lease updated blindly", Call("PUT", f"{LEASES}/l", LEASE), (Call("POST", LEASES, LEASE),)),
    Case("a missing lease", Call("GET", f"{LEASES}/l")),
    Case("a webhook configuration", hook()),
    Case("a webhook of plain HTTP", hook(clientConfig={"url": "http://127.0.0.1/x"})),
    Case("a webhook with a query", hook(clientConfig={"url": "https://127.0.0.1/x?a=b"}), loose=True),
    Case("a webhook that waits for long", hook(timeoutSeconds=31)),
    Case("a webhook without side effects said", hook(sideEffects="Some")),
    Case(
        "a webhook with a bad condition", hook(matchConditions=[{"name": "x", "expression": "object.foo("}]), loose=True
    ),
    Case(
        "a token review",
        Call(
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "made-up"}},
        ),
    ),
    Case("a method that is not served", Call("PUT", PODS, pod()), loose=True),
)
