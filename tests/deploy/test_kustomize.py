"""What kustomize makes of deploy/: references that meet, and components that change what they say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from hami_platform import env
from scripts import manifests as made
from tests.deploy import manifests
from tests.deploy.manifests import DEPLOY, Manifest


def of_kind(objects: list[Manifest], kind: str) -> list[Manifest]:
    return [one for one in objects if one["kind"] == kind]


@pytest.fixture(scope="module")
def base() -> list[Manifest]:
    return manifests.built(DEPLOY / "base")


def with_component(folder: Path, component: str) -> list[Manifest]:
    """The base with one component, from a folder of somebody's own."""

    def relative(target: Path) -> str:
        return os.path.relpath(target, folder.resolve())

    body = {"resources": [relative(DEPLOY / "base")], "components": [relative(DEPLOY / "components" / component)]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(body))
    return manifests.built(folder)


def test_every_configmap_that_a_pod_reads_is_made(base: list[Manifest]) -> None:
    there = {one["metadata"]["name"] for one in of_kind(base, "ConfigMap")}
    read = set()
    for work in manifests.workloads(base):
        read |= {volume["configMap"]["name"] for volume in manifests.pod_of(work)["volumes"] if "configMap" in volume}
        for one in manifests.containers(work):
            read |= {source["configMapRef"]["name"] for source in one.get("envFrom", ())}
    assert read == there
    assert len(there) == 3


def test_every_account_of_a_pod_and_of_a_binding_is_made(base: list[Manifest]) -> None:
    there = {one["metadata"]["name"] for one in of_kind(base, "ServiceAccount")}
    assert {manifests.pod_of(work)["serviceAccountName"] for work in manifests.workloads(base)} == there
    bindings = of_kind(base, "ClusterRoleBinding") + of_kind(base, "RoleBinding")
    assert {subject["name"] for one in bindings for subject in one["subjects"]} <= there


def accounts_with_token(objects: list[Manifest]) -> set[str]:
    accounts = of_kind(objects, "ServiceAccount")
    return {one["metadata"]["name"] for one in accounts if one.get("automountServiceAccountToken", True)}


def accounts_with_rights(objects: list[Manifest]) -> set[str]:
    bindings = of_kind(objects, "ClusterRoleBinding") + of_kind(objects, "RoleBinding")
    return {subject["name"] for one in bindings for subject in one["subjects"]}


def test_accounts_have_a_token_if_they_have_rights(base: list[Manifest]) -> None:
    assert accounts_with_token(base) == accounts_with_rights(base)
    assert "hami-platform-webhook" not in accounts_with_rights(base)


def test_refit_gives_the_webhook_its_rights_and_its_token(tmp_path: Path) -> None:
    objects = with_component(tmp_path, "refit")
    assert "hami-platform-webhook" in accounts_with_rights(objects)
    assert accounts_with_token(objects) == accounts_with_rights(objects)
    (webhook,) = [one for one in of_kind(objects, "Deployment") if one["metadata"]["name"] == "hami-platform-webhook"]
    assert manifests.pod_of(webhook)["automountServiceAccountToken"] is True


def test_our_own_objects_lie_in_one_namespace(base: list[Manifest]) -> None:
    rights = {"Role", "RoleBinding"}  # also in the namespaces of what they are about
    spaces = {one["metadata"].get("namespace") for one in base if one["kind"] not in rights}
    assert spaces == {"hami-system", None}


def test_the_example_and_the_migration_build() -> None:
    assert manifests.workloads(manifests.built(DEPLOY / "example"))
    assert [one["kind"] for one in manifests.built(DEPLOY / "migrate")] == ["Job"]


def test_with_hamis_plugin_there_is_no_agent_and_the_plugin_may_write(tmp_path: Path) -> None:
    objects = with_component(tmp_path, "hami-plugin")
    assert of_kind(objects, "DaemonSet") == []
    (webhook,) = of_kind(objects, "MutatingWebhookConfiguration")
    assert webhook == manifests.documents(made.WEBHOOK_HAMI)[0]
    (settings,) = [
        one
        for one in of_kind(objects, "ConfigMap")
        if "HAMI_CLUSTER" in one["data"] and "HAMI_ALLOWED_HOSTS" in one["data"]
    ]
    assert settings["data"]["HAMI_OWNED_KEY_WRITERS"] == made.HAMI_PLUGIN


def test_cert_manager_injects_into_the_webhook_configuration_and_changes_nothing_else(tmp_path: Path) -> None:
    (webhook,) = of_kind(with_component(tmp_path, "cert-manager"), "MutatingWebhookConfiguration")
    annotations = webhook["metadata"].pop("annotations")
    assert annotations == {"cert-manager.io/inject-ca-from": "hami-system/hami-platform-tls"}
    assert webhook == manifests.documents(made.WEBHOOK)[0]


def agent_of(objects: list[Manifest]) -> Manifest:
    (agent,) = (one for one in of_kind(objects, "DaemonSet") if one["metadata"]["name"] == "hami-platform-agent")
    return agent


def test_with_cdi_the_agent_sees_the_driver_and_may_write_specifications(tmp_path: Path) -> None:
    (one,) = manifests.containers(agent_of(with_component(tmp_path, "cdi")))
    mounts = {mount["name"]: (mount["mountPath"], mount.get("readOnly", False)) for mount in one["volumeMounts"]}
    assert (mounts["cdi"], mounts["driver-root"]) == (("/var/run/cdi", False), ("/driver-root", True))
    settings = env.load({entry["name"]: entry["value"] for entry in one["env"] if entry["name"].startswith("HAMI_D")})
    assert settings.device_list_strategy == ("cdi-cri",)


def test_with_refit_the_agent_knows_whom_to_ask(tmp_path: Path) -> None:
    objects = with_component(tmp_path, "refit")
    (one,) = manifests.containers(agent_of(objects))
    asked = {entry["name"]: entry.get("value", "") for entry in one["env"]}["HAMI_SCHEDULER_ENDPOINT"]
    services = {
        f"https://{s['metadata']['name']}.{s['metadata']['namespace']}.svc" for s in of_kind(objects, "Service")
    }
    assert asked in services
