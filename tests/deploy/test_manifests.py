"""The manifests as they lie in deploy/: valid, hardened, complete, and in words that the product knows."""

from __future__ import annotations

import itertools
import re

import kubernetes_validate
import pytest
import yaml

from hami_platform import env, urls
from scheduler_ext import urls as machines
from scripts import manifests as made
from tests.deploy import manifests
from tests.deploy.manifests import BASE, DEPLOY, Manifest

# What kubernetes-validate knows and clusters run; the middle is not walked, since fields do not come and go.
VERSIONS = ("1.30", "1.36")
OURS = ("kustomize.config.k8s.io/", "kubescheduler.config.k8s.io/", "cert-manager.io/")
OBJECTS = [one for one in manifests.committed() if not one["apiVersion"].startswith(OURS) and "$patch" not in one]
WORKLOADS = manifests.workloads(OBJECTS)
CONTAINERS = [(work["metadata"]["name"], one) for work in WORKLOADS for one in manifests.containers(work)]
OWN = [(name, one) for name, one in CONTAINERS if one["image"] == "hami-platform"]
VARIABLES = {row.variable for row in env.TABLE} | {f"{row.variable}_FILE" for row in env.TABLE if row.secret}


def name_of(manifest: Manifest) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def whole(manifest: Manifest) -> bool:
    """Not a patch, which names only what it changes."""
    return manifest["kind"] != "MutatingWebhookConfiguration" or "webhooks" in manifest


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid_for_kubernetes(version: str) -> None:
    for one in filter(whole, OBJECTS):
        kubernetes_validate.validate(one, version, strict=True)


def test_every_role_has_a_workload() -> None:
    roles = {variable["value"] for _, one in OWN for variable in one.get("env", ()) if variable["name"] == "HAMI_ROLE"}
    roles.add(manifests.lines(BASE / "agent.env")["HAMI_ROLE"])
    assert roles == set(env.ROLES)


def used_names() -> set[str]:
    direct = {variable["name"] for _, one in OWN for variable in one.get("env", ())}
    files = (manifests.lines(path) for path in DEPLOY.rglob("*.env"))
    merged = (
        literal.partition("=")[0]
        for path in DEPLOY.rglob("kustomization.yaml")
        for one in manifests.documents(path)
        for generator in one.get("configMapGenerator", ())
        for literal in generator.get("literals", ())
    )
    docker = re.findall(r"HAMI_\w+", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    return {name for name in itertools.chain(direct, *files, merged, docker) if name.startswith("HAMI_")}


def test_every_setting_exists() -> None:
    assert used_names() - VARIABLES == set()


def test_every_setting_that_the_install_page_names_exists() -> None:
    page = (made.ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"HAMI_[A-Z_]+[A-Z]", page)) - VARIABLES == set()


@pytest.mark.parametrize("path", [BASE / "settings.env", BASE / "agent.env"], ids=lambda path: path.name)
def test_settings_load_as_they_are(path: object, tmp_path_factory: pytest.TempPathFactory) -> None:
    secret = tmp_path_factory.mktemp("secrets") / "value"
    secret.write_text("postgresql://u:p@db/name")
    redis = secret.with_name("redis-url")
    redis.write_text("redis://cache:6379/0")
    values = {
        name: str(redis if "REDIS" in name else secret) if value.startswith("/run/secrets/") else value
        for name, value in manifests.lines(BASE / str(path)).items()
    }
    assert env.load(values).cluster == "default"


def test_own_containers_are_read_only_and_without_privileges() -> None:
    for name, one in CONTAINERS:
        security = one["securityContext"]
        assert security["readOnlyRootFilesystem"] is True, name
        assert security["allowPrivilegeEscalation"] is False, name
        assert security["capabilities"]["drop"] == ["ALL"], name


def test_only_the_agent_runs_as_root_and_on_host_paths() -> None:
    for work in WORKLOADS:
        pod = manifests.pod_of(work)
        agent = work["kind"] == "DaemonSet"
        assert agent or pod["securityContext"]["runAsNonRoot"] is True
        assert agent or not any("hostPath" in volume for volume in pod["volumes"])
        assert not pod.get("hostNetwork")
        assert not pod.get("hostPID")


def test_the_agent_sees_no_secret_but_its_token() -> None:
    volumes = manifests.pod_of(manifests.named("DaemonSet", "hami-platform-agent"))["volumes"]
    keys = [item["key"] for volume in volumes if "secret" in volume for item in volume["secret"]["items"]]
    assert keys == ["internal-token", "ca.crt"]


def test_every_container_has_requests_and_a_memory_limit() -> None:
    for name, one in CONTAINERS:
        assert set(one["resources"]["requests"]) == {"cpu", "memory"}, name
        assert set(one["resources"]["limits"]) == {"memory"}, name  # a CPU limit would throttle decisions


def test_everything_that_stays_up_is_probed() -> None:
    for work in WORKLOADS:
        for one in manifests.pod_of(work)["containers"] if work["kind"] != "Job" else ():
            assert {"startupProbe", "livenessProbe"} <= set(one), work["metadata"]["name"]


@pytest.mark.parametrize("role", ["webhook", "web", "scheduler", "watcher", "worker"])
def test_what_has_replicas_has_a_disruption_budget_for_its_pods(role: str) -> None:
    work = manifests.named("Deployment", f"hami-platform-{role}")
    budget = manifests.named("PodDisruptionBudget", f"hami-platform-{role}")
    assert work["spec"]["replicas"] == 2
    assert budget["spec"]["selector"] == work["spec"]["selector"]


@pytest.mark.parametrize("role", ["webhook", "web"])
def test_services_reach_their_pods(role: str) -> None:
    service = manifests.named("Service", f"hami-platform-{role}")["spec"]
    template = manifests.named("Deployment", f"hami-platform-{role}")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert service["selector"] == template["metadata"]["labels"]
    assert service["ports"][0]["targetPort"] in {port["name"] for port in container["ports"]}


def answered(role: str) -> set[str]:
    """The plain paths of a role's listener."""
    routes = urls.routes(role) if role == "web" else machines.routes(role)
    return {f"/{route.pattern}" for route in routes}


@pytest.mark.parametrize("role", ["webhook", "web", "scheduler"])
def test_listeners_answer_the_paths_that_are_probed(role: str) -> None:
    work = manifests.named("Deployment", f"hami-platform-{role}")
    (container,) = [one for one in manifests.pod_of(work)["containers"] if one["image"] == "hami-platform"]
    probes = [one for key, one in container.items() if key.endswith("Probe")]
    paths = {match for probe in probes for match in re.findall(r"/(?:startupz|livez|healthz|readyz)", str(probe))}
    assert paths
    assert paths <= answered("extender" if role == "scheduler" else role)


def test_probes_of_the_console_name_an_allowed_host() -> None:
    (container,) = manifests.pod_of(manifests.named("Deployment", "hami-platform-web"))["containers"]
    allowed = manifests.lines(BASE / "settings.env")["HAMI_ALLOWED_HOSTS"].split(",")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        (header,) = container[probe]["httpGet"]["httpHeaders"]
        assert header["value"] in allowed


def test_agents_report_to_an_allowed_host() -> None:
    url = manifests.lines(BASE / "agent.env")["HAMI_PLATFORM_URL"]
    assert url.removeprefix("https://") in manifests.lines(BASE / "settings.env")["HAMI_ALLOWED_HOSTS"].split(",")


def test_no_role_of_ours_may_read_secrets_or_do_everything() -> None:
    for role in (one for one in OBJECTS if one["kind"] in {"ClusterRole", "Role"}):
        for rule in role["rules"]:
            assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            assert "secrets" not in rule["resources"]


def test_the_scheduler_leaves_every_resource_of_every_vendor_to_us() -> None:
    config = yaml.safe_load(made.SCHEDULER.read_text(encoding="utf-8"))
    (extender,) = config["extenders"]
    assert extender["ignorable"] is False
    assert extender["nodeCacheCapable"] is True
    assert extender["httpTimeout"] == "30s"
    assert extender["urlPrefix"] == "http://127.0.0.1:9444"
    assert all(one["ignoredByScheduler"] is True for one in extender["managedResources"])
    assert made.scheduler() == made.SCHEDULER.read_text(encoding="utf-8"), "run make docs"


def test_the_scheduler_answers_to_the_name_that_the_webhook_gives() -> None:
    config = yaml.safe_load(made.SCHEDULER.read_text(encoding="utf-8"))
    name = manifests.lines(BASE / "settings.env")["HAMI_SCHEDULER_NAME"]
    assert [profile["schedulerName"] for profile in config["profiles"]] == [name]


@pytest.mark.parametrize("writers", ["", made.HAMI_PLUGIN], ids=["agent", "hami-plugin"])
def test_the_webhook_configuration_is_what_the_command_prints(writers: str) -> None:
    path = made.WEBHOOK_HAMI if writers else made.WEBHOOK
    assert path.read_text(encoding="utf-8") == made.webhook(writers), "run make docs"


def test_the_writer_in_the_settings_is_the_one_in_the_webhook_configuration() -> None:
    (component,) = manifests.documents(made.WEBHOOK_HAMI.with_name("kustomization.yaml"))
    (generator,) = component["configMapGenerator"]
    assert generator["literals"] == [f"HAMI_OWNED_KEY_WRITERS={made.HAMI_PLUGIN}"]


def test_image_tags_are_this_version() -> None:
    version = re.search(r'^version = "(.+)"$', (made.ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert version is not None
    tags = {
        image["newTag"]
        for path in DEPLOY.rglob("kustomization.yaml")
        for one in manifests.documents(path)
        for image in one.get("images", ())
        if image["name"] == "hami-platform"
    }
    assert tags == {version[1]}


def test_the_image_holds_what_the_processes_import() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    copied = set(re.findall(r"^COPY (\w+) ", text, re.MULTILINE))
    assert copied == {"hami_platform", "accounting", "scheduler_ext", "deviceplugin", "templates", "locale"}
    assert re.search(r"^USER 65532:65532$", text, re.MULTILINE)
