"""What the API server does to pods: defaults, built-in admission, quality of service, immutable fields.

Knows nothing of HTTP; resource amounts are checked in `resources`. Source: Kubernetes pkg/apis/core/v1/defaults.go,
pkg/registry/core/pod/strategy.go, plugin/pkg/admission/{serviceaccount,defaulttolerationseconds,priority}, v1.36.
"""

from __future__ import annotations

from collections.abc import Iterator

from hami_platform.simulator.api import errors, names, resources, shape
from hami_platform.simulator.api.types import Obj, copied, now_text

_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a mount path
_NODE_TROUBLES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
BUILT_IN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_POLICIES = ("Always", "OnFailure", "Never")
_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def containers(pod: Obj) -> Iterator[tuple[str, int, Obj]]:
    """Every container with its list's name and its index, init containers first."""
    spec = pod.get("spec") or {}
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or []):
            yield kind, index, container


def set_defaults(pod: Obj) -> None:
    """Fill in the defaults of the version; runs again after every admission patch. Raises ApiError."""
    spec = pod.setdefault("spec", {})
    pod.setdefault("status", {})
    for kind, index, container in containers(pod):
        if not isinstance(container, dict):
            raise errors.bad_request(
                f'Pod in version "v1" cannot be handled as a Pod: spec.{kind}[{index}] is not an object'
            )
        _container_defaults(container)
        resources.normalise(container, f"spec.{kind}[{index}]")
    for key, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("securityContext", {}),
        ("schedulerName", "default-scheduler"),
        ("enableServiceLinks", True),
    ):
        spec.setdefault(key, value)
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]


def _container_defaults(container: Obj) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = str(container.get("image", ""))
    tag = image.rpartition("/")[2].partition(":")[2]
    container.setdefault("imagePullPolicy", "Always" if tag in ("", "latest") else "IfNotPresent")
    for variable in container.get("env") or []:
        if variable.get("value") == "":
            del variable["value"]  # Go does not write an empty one
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")


def admit(pod: Obj, priorities: dict[str, int]) -> None:
    """The built-in mutating plugins that run before webhooks. Raises ApiError 403 for an unknown priority class."""
    spec = pod["spec"]
    spec.setdefault("serviceAccountName", "default")
    spec["serviceAccount"] = spec["serviceAccountName"]
    if spec.get("automountServiceAccountToken", True):
        _mount_token(pod)
    _priority(pod, priorities)
    _tolerations(spec)


def _mount_token(pod: Obj) -> None:
    spec = pod["spec"]
    wanting = [
        c
        for _, _, c in containers(pod)
        if not any(m.get("mountPath") == _TOKEN_PATH for m in c.get("volumeMounts") or [])
    ]
    if not wanting:
        return
    name = f"kube-api-access-{shape.random_suffix()}"
    spec.setdefault("volumes", []).append(
        {"name": name, "projected": {"sources": _token_sources(), "defaultMode": 420}}
    )
    for container in wanting:
        container.setdefault("volumeMounts", []).append({"name": name, "readOnly": True, "mountPath": _TOKEN_PATH})


def _token_sources() -> list[Obj]:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]


def _priority(pod: Obj, priorities: dict[str, int]) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    known = {**BUILT_IN_PRIORITIES, **priorities}
    if name and name not in known:
        raise errors.ApiError(
            403,
            "Forbidden",
            f'pods "{pod["metadata"].get("name", "")}" is forbidden: no PriorityClass with name {name} was found',
        )
    spec["priority"] = known[name] if name else 0
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _tolerations(spec: Obj) -> None:
    present = spec.get("tolerations") or []
    for key in _NODE_TROUBLES:
        if not any(t.get("key") in (key, None, "") and t.get("effect") in ("NoExecute", None, "") for t in present):
            spec.setdefault("tolerations", []).append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )


def prepare_create(pod: Obj) -> None:
    """Status and conditions of a new pod; what the client sent as status is dropped."""
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(pod)}
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": now_text(),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def qos_class(pod: Obj) -> str:
    """Guaranteed, Burstable or BestEffort, from CPU and memory only."""
    guaranteed, any_set = True, False
    for _, _, container in containers(pod):
        amounts = container.get("resources") or {}
        for name in ("cpu", "memory"):
            request, limit = (amounts.get("requests") or {}).get(name), (amounts.get("limits") or {}).get(name)
            any_set = any_set or request is not None or limit is not None
            guaranteed = guaranteed and limit is not None and request == limit
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def create_causes(pod: Obj) -> list[errors.Cause]:
    """What is wrong with a new pod's spec."""
    spec = pod["spec"]
    causes = _container_causes(pod)
    if not spec.get("containers"):
        causes.append(errors.required("spec.containers"))
    if spec["restartPolicy"] not in _POLICIES:
        causes.append(errors.unsupported("spec.restartPolicy", spec["restartPolicy"], _POLICIES))
    gates = [str(gate.get("name")) for gate in spec.get("schedulingGates") or []]
    for index, name in enumerate(gates):
        field = f"spec.schedulingGates[{index}]"
        causes += [errors.bad_value(f"{field}.name", name, text) for text in names.key_faults(name)]
        if name in gates[:index]:
            causes.append(errors.Cause(field, "FieldValueDuplicate", f'"{name}"'))
    if gates and spec.get("nodeName"):
        causes.append(
            errors.forbidden_field("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
        )
    return causes


def _container_causes(pod: Obj) -> list[errors.Cause]:
    """App containers are looked at before init containers, as in the real server."""
    causes: list[errors.Cause] = []
    seen: set[str] = set()
    for kind, index, container in sorted(containers(pod), key=lambda item: item[0] != "containers"):
        field, name = f"spec.{kind}[{index}]", str(container.get("name") or "")
        if not name:
            causes.append(errors.required(f"{field}.name"))
        else:
            causes += names.label_causes(f"{field}.name", name)
        if name in seen:
            causes.append(errors.Cause(f"{field}.name", "FieldValueDuplicate", f'"{name}"'))
        seen.add(name)
        if not container.get("image"):
            causes.append(errors.required(f"{field}.image"))
        policy = container.get("restartPolicy")
        if policy and policy not in _POLICIES:
            causes.append(errors.unsupported(f"{field}.restartPolicy", policy, _POLICIES))
        causes += resources.container_causes(container, field)
    return causes


def update_causes(new: Obj, old: Obj) -> list[errors.Cause]:
    """What an update may not do: everything in spec but images, deadlines, added tolerations and falling gates."""
    causes: list[errors.Cause] = []
    before = {gate["name"] for gate in old["spec"].get("schedulingGates") or []}
    for index, gate in enumerate(new["spec"].get("schedulingGates") or []):
        if gate.get("name") not in before:
            causes.append(
                errors.forbidden_field(
                    f"spec.schedulingGates[{index}].name",
                    f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
                )
            )
    if not _only_added(new["spec"].get("tolerations"), old["spec"].get("tolerations")):
        causes.append(
            errors.forbidden_field(
                "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
            )
        )
    if _fixed(new, gated=bool(before)) != _fixed(old, gated=bool(before)):
        causes.append(errors.forbidden_field("spec", _IMMUTABLE))
    elif before and not _narrowed(new["spec"], old["spec"]):
        causes.append(
            errors.bad_value(
                "spec.nodeSelector", new["spec"].get("nodeSelector"), "pod schedulingGates: only additions are allowed"
            )
        )
    return causes


def _only_added(new: list[Obj] | None, old: list[Obj] | None) -> bool:
    kept = [{key: value for key, value in item.items() if key != "tolerationSeconds"} for item in new or []]
    return all({key: value for key, value in item.items() if key != "tolerationSeconds"} in kept for item in old or [])


def _fixed(pod: Obj, *, gated: bool) -> Obj:
    """The part of spec that may not change: all but what `update_causes` allows."""
    spec = copied(pod["spec"])
    free = ["schedulingGates", "tolerations", "activeDeadlineSeconds"] + (["nodeSelector", "affinity"] if gated else [])
    for key in free:
        spec.pop(key, None)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or []:
            container.pop("image", None)
            container.pop("imagePullPolicy", None)
    return spec


def _narrowed(new: Obj, old: Obj) -> bool:
    after = new.get("nodeSelector") or {}
    return all(after.get(key) == value for key, value in (old.get("nodeSelector") or {}).items())


def bind(pod: Obj, node: str, annotations: Obj, labels: Obj) -> None:
    """Assign a pod to a node with the Binding's annotations and labels, in one write."""
    meta = pod["metadata"]
    pod["spec"]["nodeName"] = node
    for key, found in (("annotations", annotations), ("labels", labels)):
        if found:
            meta[key] = {**(meta.get(key) or {}), **found}
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now_text(),
    }
    status = pod.setdefault("status", {})
    others = [item for item in status.get("conditions") or [] if item.get("type") != "PodScheduled"]
    status["conditions"] = [*others, condition]
