"""What the platform may do in the cluster: its service account, its token, and objects applied for it.

Must not know: how the platform uses them.
"""

from __future__ import annotations

from typing import Any

import yaml

from tests.cluster import kube

NAMESPACE = "hami-system"
ACCOUNT = "hami-platform"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"

# Deliberately the least that works: a missing right must show in these tests, not in somebody's cluster.
RULES: list[dict[str, list[str]]] = [
    {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["namespaces", "resourcequotas"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/binding", "bindings"], "verbs": ["create"]},
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
]

PLUGIN_USER = "system:serviceaccount:kube-system:hami-device-plugin"
PLUGIN_RULES: list[dict[str, list[str]]] = [
    {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch", "patch", "update"]},
]

_COLLECTIONS = {
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
}


def service_account(api: kube.Kube) -> str:
    """Make the platform's account with its rights, and answer a token that outlives the run."""
    api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    api.create(accounts, {"metadata": {"name": ACCOUNT}})
    _allow(api, ACCOUNT, RULES, {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE})
    answer = api.create(f"{accounts}/{ACCOUNT}/token", {"spec": {"expirationSeconds": 6 * 3600}})
    return str(answer["status"]["token"])


def device_plugin(api: kube.Kube) -> None:
    """Let the user that stands for HAMi's plugin do what its chart allows it, pods and nodes alone."""
    _allow(api, "device-plugin", PLUGIN_RULES, {"kind": "User", "name": PLUGIN_USER})


def _allow(api: kube.Kube, name: str, rules: list[dict[str, list[str]]], subject: dict[str, str]) -> None:
    group = "" if subject["kind"] == "ServiceAccount" else "rbac.authorization.k8s.io"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [{"apiGroup": group, **subject}]}
    api.create(f"{_RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    api.create(f"{_RBAC}/clusterrolebindings", binding)


def apply(api: kube.Kube, text: str) -> None:
    """Create the cluster-wide objects of a YAML or JSON stream, replacing ones of the same name."""
    for document in yaml.safe_load_all(text):
        collection = _COLLECTIONS[document["kind"]]
        path = f"{collection}/{document['metadata']['name']}"
        found: dict[str, Any] | None = api.get(path)
        if found is None:
            api.create(collection, document)
        else:
            document["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
            api.call("PUT", path, document)
