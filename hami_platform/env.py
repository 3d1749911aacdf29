"""The one table of settings: names, types, defaults and help; how they are read from the environment and from flags.

Knows no Django and no app, since the node agent reads its settings here too. `docs/configuration.md` is made from
this table. Prefix `HAMI_`; a name in `also` is read when the prefixed one is absent; `flags` are HAMi's
command line flags that mean the same here (source: HAMi v2.10.0, cmd/scheduler and cmd/device-plugin).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hami_platform import env_monitor, env_reading
from hami_platform import env_values as values
from hami_platform.env_reading import row

BadSettingsError = env_reading.BadSettingsError
ROLES: Final = ("web", "webhook", "extender", "watcher", "worker", "beat", "agent", "tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(env_monitor.MonitorSettings):
    """Every setting, read and checked. Durations are seconds; None or empty text means "not set"."""

    # -- Process
    role: str = row(values.choice(*ROLES), "tool", "What this process is. `tool` is any other management command.")
    cluster: str = row(values.text, "default", "Name of the one cluster that this process serves.")
    state_dir: str = row(
        values.text, ".state", "Folder of what an embedded installation keeps: database, certificates, broker."
    )
    debug: bool = row(values.boolean, "false", "Django's debug pages. Never in production.")
    demo: bool = row(values.boolean, "false", "This is the demonstration with a simulated cluster; pages say so.")
    demo_seed: int = row(values.integer(0), "0", "Seed of the demonstration's pods and past, for its pages to tell.")
    log_level: str = row(values.choice("debug", "info", "warning", "error"), "info", "Lowest level that is logged.")
    log_format: str = row(
        values.choice("text", "json"), "text", "`text` is key=value for people, `json` one object a line."
    )
    metrics_bind: values.Address | None = row(
        values.optional_address,
        "",
        "Plain HTTP listener for /metrics alone; of several workers one has it. Webhook and extender show them "
        "where they listen, too. Empty: none. HAMi: `:9395`.",
        flags=("metrics-bind-address",),
    )
    cluster_metrics: str = row(
        values.choice("always", "leader", "never"),
        "always",
        "Which webhooks, extenders and watchers show the figures of the whole cluster: all of them (sums over replicas "
        "then count everything several times), the watcher in office alone, or none.",
    )
    legacy_metrics: bool = row(
        values.boolean, "false", "Also show the metric names of HAMi's older releases.", flags=("legacy-metrics",)
    )

    # -- Database and Redis
    database_url: values.Database | None = row(
        values.database,
        "",
        "`postgresql://user:password@host:5432/name` or `sqlite:////path`. Empty: SQLite in the state folder.",
        secret=True,
    )
    database_pool_min: int = row(values.integer(0), "2", "PostgreSQL connections that a process keeps open.")
    database_pool_max: int = row(values.integer(1), "8", "PostgreSQL connections that a process opens at most.")
    lock_timeout_s: float = row(values.seconds, "1s", "Longest wait for the ledger's lock.", variable="LOCK_TIMEOUT")
    statement_timeout_s: float = row(
        values.seconds, "2s", "Longest statement on PostgreSQL, except in migrations.", variable="STATEMENT_TIMEOUT"
    )
    idle_transaction_timeout_s: float = row(
        values.seconds,
        "1.5s",
        "Longest pause inside a transaction on PostgreSQL: what a stopped process can cost the others.",
        variable="IDLE_TRANSACTION_TIMEOUT",
    )
    redis_url: str = row(
        values.redis_url,
        "",
        "Celery's broker and the cache. Empty: both live in the state folder and the database.",
        secret=True,
    )

    # -- Web and sign-in
    secret_key: str = row(
        values.text,
        "",
        "Signs sessions. Empty: made once and kept in the state folder, which serves one machine only.",
        secret=True,
    )
    allowed_hosts: tuple[str, ...] = row(
        values.words, "localhost,127.0.0.1,[::1]", "Host names under which people reach the console."
    )
    csrf_trusted_origins: tuple[str, ...] = row(
        values.words, "", "Origins (scheme and host) that may post forms, when a proxy changes the host."
    )
    behind_tls_proxy: bool = row(
        values.boolean,
        "false",
        "A proxy ends TLS and sets X-Forwarded-Proto: cookies become secure, redirects use https.",
    )
    oidc_name: str = row(values.text, "OpenID Connect", "Text on the button of the identity provider.")
    oidc_server_url: str = row(values.text, "", "Issuer of the OpenID Connect provider. Empty: local accounts only.")
    oidc_client_id: str = row(values.text, "", "Client id at the provider.")
    oidc_client_secret: str = row(values.text, "", "Client secret at the provider.", secret=True)
    oidc_groups_claim: str = row(
        values.text, "groups", "Claim with the person's groups; at each sign-in she is in those that exist here."
    )
    internal_token: str = row(
        values.text,
        "",
        "Bearer token by which agents and /refit prove who they are. Empty: those endpoints refuse.",
        secret=True,
    )

    rest_requests_per_minute: int = row(
        values.integer(0),
        "1200",
        "REST requests per minute of one account, or one address without an account; each web worker counts for itself."
        " Half of them may come at once. 0: no bound.",
    )
    notify_url: str = row(
        values.http_url,
        "",
        "Where it is told by POST that a limit or budget is nearly used, a pod waits long, or drift was found.",
    )
    notify_secret: str = row(values.text, "", "Signs what is told (HMAC-SHA256, `X-Hami-Signature`).", secret=True)
    notify_pending_m: int = row(values.integer(1), "10", "Minutes after which a waiting pod is told of.")

    # -- Listeners
    web_bind: values.Address = row(values.address, "127.0.0.1:8000", "Console and REST.")
    webhook_bind: values.Address = row(values.address, ":9443", "Admission webhook, always TLS.", flags=("http_bind",))
    extender_bind: values.Address = row(
        values.address,
        "127.0.0.1:9444",
        "Scheduler extender; beyond loopback only with client certificates or tokens.",
        flags=("extender-bind",),
    )
    tls_cert_file: str = row(
        values.text, "", "Server certificate (PEM). Empty: a self-made one in the state folder.", flags=("cert_file",)
    )
    tls_key_file: str = row(values.text, "", "Its private key (PEM).", flags=("key_file",))
    tls_client_ca_file: str = row(
        values.text, "", "Clients of the extender must present a certificate of this authority."
    )
    webhook_client_ca_file: str = row(
        values.text, "", "Callers of the webhook's listener must present a certificate of this authority. Empty: none."
    )
    extender_token_users: tuple[str, ...] = row(
        values.words,
        "",
        "Users or groups who may call the extender, by a token that TokenReview knows. Empty: no token is asked for.",
    )
    tls_names: tuple[str, ...] = row(
        values.words, "localhost,127.0.0.1", "Names and addresses in a self-made certificate."
    )
    listener_workers: int = row(values.integer(1, 64), "1", "Worker processes of a listener.")
    listener_threads: int = row(
        values.integer(1, 1024), "256", "Threads of each worker; binds that wait for a node take half of them at most."
    )
    listener_connections: int = row(
        values.integer(1, 65536), "4096", "Connections that each worker keeps at once; further ones wait for an end."
    )
    listener_head_timeout_s: float = row(
        values.some_seconds,
        "30s",
        "Longest wait for the whole head of a request, the next one's too: a connection idle for so long is closed.",
        variable="LISTENER_HEAD_TIMEOUT",
    )
    listener_body_timeout_s: float = row(
        values.some_seconds, "10s", "Longest wait for the whole body of a request.", variable="LISTENER_BODY_TIMEOUT"
    )

    # -- Kubernetes
    kubeconfig: str = row(
        values.text,
        "",
        "File that says how to reach the API server. Empty: the pod's service account.",
        also=("KUBECONFIG",),
        flags=("kubeconfig",),
    )
    kube_qps: float = row(
        values.positive, "500", "Requests per second to the API server; a bind takes two. HAMi: 5.", flags=("kube-qps",)
    )
    kube_burst: int = row(
        values.integer(1), "1000", "Requests at once above that rate. HAMi: 10.", flags=("kube-burst",)
    )
    kube_timeout_s: float = row(
        values.seconds,
        "10s",
        "Longest single request, in HAMi without bound; 0 means this default.",
        variable="KUBE_TIMEOUT",
        flags=("kube-timeout",),
    )
    node_label_selector: tuple[tuple[str, str], ...] = row(
        values.labels, "", "Only nodes with these labels are managed: `a=b,c=d`.", flags=("node-label-selector",)
    )
    pod_name: str = row(values.text, "", "This process's pod, in leases and events.", also=("POD_NAME",))
    pod_namespace: str = row(values.text, "", "Its namespace.", also=("POD_NAMESPACE",))

    # -- Scheduling
    scheduler_name: str = row(
        values.text, "hami-scheduler", "schedulerName of the pods that are ours.", flags=("scheduler-name",)
    )
    node_scheduler_policy: str = row(
        values.choice("binpack", "spread"), "binpack", "Which node first.", flags=("node-scheduler-policy",)
    )
    gpu_scheduler_policy: str = row(
        values.device_policy,
        "spread",
        "Which device of a node first: one word or a comma chain.",
        flags=("gpu-scheduler-policy",),
    )
    mig_whole_is_largest: bool = row(
        values.boolean,
        "false",
        "All of a device means, on a card in MIG mode, its largest instance. Off, as in HAMi: it needs a whole card.",
    )
    force_overwrite_default_scheduler: bool = row(
        values.boolean,
        "true",
        "Pods with devices that name the default scheduler get ours.",
        flags=("force-overwrite-default-scheduler",),
    )
    device_config_file: str = row(
        values.text,
        "",
        "HAMi's device-config.yaml: resource names and defaults per vendor.",
        flags=("device-config-file", "config-file"),
    )
    node_lock_timeout_s: float = row(
        values.seconds,
        "5m",
        "Age at which a node's lock counts as left behind.",
        variable="NODE_LOCK_TIMEOUT",
        also=("HAMI_NODELOCK_EXPIRE",),
        flags=("node-lock-timeout",),
    )
    node_lock_retry_timeout_s: float = row(
        values.seconds,
        "28s",
        "Longest wait for a node's lock within one bind.",
        variable="NODE_LOCK_RETRY_TIMEOUT",
        flags=("node-lock-retry-timeout",),
    )
    node_cache_capable: bool = row(
        values.boolean, "true", "As in the scheduler's extender entry. False: a list of whole nodes reserves too."
    )
    narrowing: bool = row(
        values.boolean, "false", "Pods with devices get a node selector for nodes that have registered devices."
    )
    strict_hami: bool = row(values.boolean, "false", "Answer as HAMi does where we would say more.")
    pod_webhook_ignore_label: bool = row(
        values.boolean, "false", "Honour the label hami.io/webhook=ignore on pods too, not only on namespaces."
    )
    owned_key_writers: tuple[str, ...] = row(
        values.words, "", "Users, besides our own and the kubelet, who may change annotations that the scheduler owns."
    )

    # -- Quota and leases
    default_namespace_mode: str = row(
        values.choice("enforce", "wait", "warn", "observe"),
        "enforce",
        "What happens over quota in a namespace that nobody has configured.",
    )
    claim_lease_s: float = row(
        values.seconds, "15s", "How long an admitted pod may stay unseen before its claim lapses."
    )
    reservation_lease_s: float = row(
        values.seconds, "60s", "How long a placed pod may stay unbound before its devices are free again."
    )
    liveness_timeout_s: float = row(
        values.seconds,
        "60s",
        "Silence of a node's agent after which its devices take nothing new.",
        variable="LIVENESS_TIMEOUT",
    )
    trace_keep_days: int = row(values.integer(1), "14", "Days for which decisions are kept.")
    trace_inputs_mib: int = row(
        values.integer(0), "512", "Disk for what decisions were taken on, to take them again. Oldest first. 0: nothing."
    )
    journal_keep_days: int = row(values.integer(1), "30", "Days for which the journal is kept.")
    measurement_keep_days: int = row(values.integer(1), "7", "Days for which measured utilisation is kept.")

    # -- Node agent
    node_name: str = row(values.text, "", "Node on which the agent runs.", also=("NODE_NAME",), flags=("node-name",))
    agent_mode: str = row(
        values.choice("platform", "hami"), "platform", "`hami` keeps HAMi's annotation protocol on Allocate."
    )
    inventory_file: str = row(values.text, "", "Devices as a JSON file, in place of NVML.")
    kubelet_dir: str = row(
        values.text, "/var/lib/kubelet/device-plugins", "Folder of the kubelet's device plugin sockets."
    )
    hook_path: str = row(values.text, "", "Folder on the node above vgpu/.", also=("HOOK_PATH",))
    resource_name: str = row(values.text, "nvidia.com/gpu", "Resource that the agent serves.", flags=("resource-name",))
    node_config_file: str = row(
        values.text, "", "HAMi's config.json: what differs on single nodes. HAMi: `/config/config.json`."
    )
    device_split_count: int = row(values.integer(1), "10", "Shares of one device.", flags=("device-split-count",))
    device_memory_scaling: float = row(
        values.positive, "1", "Registered memory as a multiple of the real one.", flags=("device-memory-scaling",)
    )
    device_core_scaling: float = row(
        values.positive, "1", "Registered cores as a multiple of 100 %.", flags=("device-cores-scaling",)
    )
    disable_core_limit: bool = row(
        values.boolean,
        "false",
        "Containers are not held to their share of a device's cores.",
        flags=("disable-core-limit",),
    )
    libcuda_log_level: str = row(
        values.text, "1", "What the limiting library logs: 0 errors, 1 warnings, 3 info, 4 debug. Empty: its default."
    )
    enable_numa_topology: bool = row(
        values.boolean, "false", "Tell the kubelet where devices are, so that it refuses pods it cannot align."
    )
    platform_url: str = row(values.text, "", "Where the agent reports. Empty: nowhere.")
    platform_ca_file: str = row(values.text, "", "Authority of the platform's certificate. Empty: the system's.")
    scheduler_endpoint: str = row(values.text, "", "Where the agent asks for a NUMA refit. Empty: it does not.")
    scheduler_ca_file: str = row(values.text, "", "Authority of that server's certificate.")
    scheduler_tls_insecure: bool = row(values.boolean, "false", "Do not check that server's certificate.")
    resync_interval_s: float = row(
        values.seconds,
        "5m",
        "How often what gone pods left on the node is cleared up, and how long it must have been quiet.",
        variable="RESYNC_INTERVAL",
    )

    # -- Tests
    e2e_bin: str = row(values.text, "", "Folder of the control plane's binaries, for `make e2e`.")


# The first setting of each group, in the order of the table.
GROUPS: Final = {
    "role": "Process",
    "database_url": "Database and Redis",
    "secret_key": "Web and sign-in",
    "web_bind": "Listeners",
    "kubeconfig": "Kubernetes",
    "scheduler_name": "Scheduling",
    "default_namespace_mode": "Quota and leases",
    "node_name": "Node agent",
    "device_list_strategy": "Node agent: devices and the kubelet",
    "monitor": "Node agent: monitor and limits",
    "e2e_bin": "Tests",
}
TABLE: Final = env_reading.table_of(Settings, GROUPS)


def load(environ: Mapping[str, str]) -> Settings:
    """Read every setting. Raises BadSettingsError that names all bad values and unknown HAMI_ names at once."""
    settings = Settings(**env_reading.read(TABLE, environ))
    problems = [*_contradictions(settings)]
    if problems:
        raise BadSettingsError(problems)
    return settings


def _contradictions(settings: Settings) -> Iterator[str]:
    if bool(settings.tls_cert_file) != bool(settings.tls_key_file):
        yield "HAMI_TLS_CERT_FILE, HAMI_TLS_KEY_FILE: set both or neither"
    if settings.database_pool_max < max(1, settings.database_pool_min):
        yield "HAMI_DATABASE_POOL_MAX: must not be below HAMI_DATABASE_POOL_MIN"
    if settings.role == "web" and settings.database_url and settings.database_url.postgres and not settings.secret_key:
        yield "HAMI_SECRET_KEY: required for the web role on PostgreSQL, since its replicas must share it"
    proof = settings.tls_client_ca_file or settings.extender_token_users
    if settings.role == "extender" and not settings.extender_bind.loopback and not proof:
        yield (
            "HAMI_EXTENDER_BIND: beyond loopback needs HAMI_TLS_CLIENT_CA_FILE or HAMI_EXTENDER_TOKEN_USERS,"
            " or anybody could bind pods"
        )


_current: Settings | None = None


def current() -> Settings:
    """This process's settings, read from its environment at the first call."""
    global _current
    if _current is None:
        _current = load(os.environ)
    return _current


@contextlib.contextmanager
def override(**changes: Any) -> Iterator[Settings]:
    """For tests: other values for a while. Django's own settings, which were made from them at start, do not follow."""
    global _current
    before = current()
    _current = dataclasses.replace(before, **changes)
    try:
        yield _current
    finally:
        _current = before
