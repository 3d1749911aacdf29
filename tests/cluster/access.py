"""What the platform may do in the cluster: the deployed accounts and rights, tokens, and objects applied for it.

Must not know: how the platform uses them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.cluster import kube

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "deploy" / "base"
NAMESPACE = "hami-system"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"

PLUGIN_USER = "system:serviceaccount:kube-system:hami-device-plugin"
PLUGIN_RULES: list[dict[str, list[str]]] = [
    {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch", "patch", "update"]},
]

_COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "Role": f"{_RBAC}/namespaces/{{namespace}}/roles",
    "RoleBinding": f"{_RBAC}/namespaces/{{namespace}}/rolebindings",
}


def install(api: kube.Kube) -> None:
    """Make the namespace, the accounts and their rights as they are deployed.

    Nothing is added for the tests: a missing right must show here, not in somebody's cluster.
    """
    for path in (BASE / "namespace.yaml", BASE / "accounts.yaml", *sorted((BASE / "rbac").glob("*.yaml"))):
        apply(api, path.read_text(encoding="utf-8"))


def token(api: kube.Kube, role: str) -> str:
    """A token of a role's account that outlives the run."""
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/hami-platform-{role}"
    answer = api.create(f"{account}/token", {"spec": {"expirationSeconds": 6 * 3600}})
    return str(answer["status"]["token"])


def device_plugin(api: kube.Kube) -> None:
    """Let the user that stands for HAMi's plugin do what its chart allows it, pods and nodes alone."""
    if api.get(f"{_RBAC}/clusterroles/device-plugin") is not None:
        return
    group = "rbac.authorization.k8s.io"
    subject = {"apiGroup": group, "kind": "User", "name": PLUGIN_USER}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "device-plugin"}
    binding = {"metadata": {"name": "device-plugin"}, "roleRef": role, "subjects": [subject]}
    api.create(f"{_RBAC}/clusterroles", {"metadata": {"name": "device-plugin"}, "rules": PLUGIN_RULES})
    api.create(f"{_RBAC}/clusterrolebindings", binding)


def apply(api: kube.Kube, text: str) -> None:
    """Create the objects of a YAML or JSON stream, replacing ones of the same name."""
    for document in yaml.safe_load_all(text):
        namespace = document["metadata"].get("namespace", "")
        collection = _COLLECTIONS[document["kind"]].format(namespace=namespace)
        path = f"{collection}/{document['metadata']['name']}"
        found: dict[str, Any] | None = api.get(path)
        if found is None:
            api.create(collection, document)
        else:
            document["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
            api.call("PUT", path, document)
