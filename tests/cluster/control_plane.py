"""etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok on loopback, for one test run.

Everything they write lies under one folder. They end with this process, however it ends. Writes to pods, nodes and
events are in the API server's audit log, which `tests.cluster.writes` counts.
Must not know: the product. Facts about flags were found by running Kubernetes 1.36.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import ssl
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import certificates, kube, processes

HERE = Path(__file__).resolve().parent
_SHARED_MEMORY = Path("/dev/shm")
_ETCD = "hami-platform-etcd-"

_LARGE_CONTROLLERS = (
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "namespace-controller",
)
_AUDITED: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["create", "update", "patch", "delete"],
            "resources": [{"group": "", "resources": ["pods", "pods/*", "nodes", "nodes/*", "events"]}],
        },
        {"level": "None"},
    ],
}


class ControlPlane:
    """One Kubernetes cluster without kubelets; `kube` talks to it as administrator.

    large: for thousands of fake nodes on two cores. Their POST must say Ready; nobody renews leases or sets taints,
    since that alone would keep the machine busy for good.
    """

    def __init__(self, folder: Path, binaries: Path, *, large: bool = False) -> None:
        self.folder = folder
        self._large = large
        self._binaries = binaries
        self._parts: dict[str, processes.Process] = {}
        self.logs = _made(folder / "log")
        self.pki = _made(folder / "pki")
        self.port, self._etcd, self._peer, self._kcm, self._scheduler = processes.free_ports(5)
        self.url = f"https://127.0.0.1:{self.port}"
        self.authority = certificates.Authority(self.pki)
        self._configuration: dict[str, Any] | None = None
        self.audit_log = self.logs / "audit.jsonl"
        self._audit_policy = folder / "audit.yaml"
        self._audit_policy.write_text(yaml.safe_dump(_AUDITED))
        self._certify()
        self.kube = kube.Kube(self.port, str(self.authority.certificate), self._users["admin"])
        self._etcd_data = _folder_in_memory(folder)

    def start(self) -> None:
        """Bring everything but the scheduler up: about 7 s on two quiet cores."""
        self._start_etcd()
        self._start_apiserver()
        self._start_controller_manager()
        self._start_kwok()
        kcm = self._parts["kube-controller-manager"]
        kcm.wait_until(lambda: bool(self.kube.get("/api/v1/namespaces/default/serviceaccounts/default")))

    def start_scheduler(self, configuration: dict[str, Any] | None = None) -> None:
        """Start kube-scheduler with the given profiles and extenders, ending an earlier one.

        It has no reload, but starts within half a second.
        """
        self.stop_scheduler()
        self._configuration = configuration
        whole: dict[str, Any] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            # The default of 50 requests a second alone caps binding.
            "clientConnection": {"kubeconfig": str(self.kubeconfig("scheduler")), "qps": 5000, "burst": 5000},
            "leaderElection": {"leaderElect": False},
            **(configuration or {}),
        }
        path = self.folder / "scheduler.yaml"
        path.write_text(yaml.safe_dump(whole))
        credentials = whole["clientConnection"]["kubeconfig"]
        part = self._run(
            "kube-scheduler",
            f"--config={path}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._scheduler}",
            f"--cert-dir={self.pki}",
            f"--authentication-kubeconfig={credentials}",
            f"--authorization-kubeconfig={credentials}",
            "--v=2",
        )
        part.wait_until(lambda: _answers_ok(f"https://127.0.0.1:{self._scheduler}/readyz"), 30)

    def has_scheduler(self) -> bool:
        """Whether a kube-scheduler runs, with whatever configuration."""
        return self.runs("kube-scheduler")

    def stop_scheduler(self) -> None:
        """End kube-scheduler if it runs: pods made meanwhile wait."""
        part = self._parts.pop("kube-scheduler", None)
        if part is not None:
            part.stop()

    @contextlib.contextmanager
    def without_apiserver(self) -> Iterator[None]:
        """kube-apiserver is killed, and answers again after the block; etcd keeps everything."""
        part = self._parts["kube-apiserver"]
        part.kill()
        try:
            yield
        finally:
            part.start()
            part.wait_until(self.kube.ready)

    def revive(self) -> None:
        """Start again what has ended, as a kubelet does: kube-scheduler ends when it cannot renew its lease in time."""
        for part in self._parts.values():
            if not part.alive():
                part.start()

    @contextlib.contextmanager
    def without_scheduler(self) -> Iterator[None]:
        """No kube-scheduler runs inside the block; one that ran before it runs again after it."""
        ran = self.has_scheduler()
        self.stop_scheduler()
        try:
            yield
        finally:
            if ran:
                self.start_scheduler(self._configuration)

    def stop(self) -> None:
        """End all parts, the ones that talk to others first."""
        for name in reversed(list(self._parts)):
            self._parts[name].stop()
        self._parts.clear()
        self.kube.close()
        shutil.rmtree(self._etcd_data, ignore_errors=True)

    def part(self, name: str) -> processes.Process:
        """One running part, for what it costs."""
        return self._parts[name]

    def runs(self, name: str) -> bool:
        """Whether this part has been started and not stopped."""
        return name in self._parts

    def kubeconfig(self, user: str) -> Path:
        """A kubeconfig file for admin, scheduler, controller-manager or kwok."""
        pair = self._users[user]
        return self.write_kubeconfig(user, {"client-certificate": str(pair.certificate), "client-key": str(pair.key)})

    def acting_as(self, user: str) -> kube.Kube:
        """A client for another user, who may do what RBAC says. Close it."""
        pair = self.authority.client(user.replace(":", "-"), user=user)
        return kube.Kube(self.port, str(self.authority.certificate), pair)

    def write_kubeconfig(self, name: str, credentials: dict[str, str]) -> Path:
        """A kubeconfig file with the given user entry."""
        cluster = {"server": self.url, "certificate-authority": str(self.authority.certificate)}
        path = self.folder / f"{name}.kubeconfig"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": credentials}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
        }
        path.write_text(yaml.safe_dump(document))
        path.chmod(0o600)
        return path

    def log_tails(self, lines: int = 15) -> str:
        """The end of every part's log, for a failed test's report."""
        return "\n".join(f"--- {name}\n{part.tail(lines)}" for name, part in self._parts.items())

    def _certify(self) -> None:
        issue = self.authority.client
        self._users = {
            "admin": issue("admin", user="test-admin", groups=["system:masters"]),
            "kwok": issue("kwok", user="test-kwok", groups=["system:masters"]),
            "scheduler": issue("scheduler", user="system:kube-scheduler"),
            "controller-manager": issue("controller-manager", user="system:kube-controller-manager"),
        }
        names = ["127.0.0.1", "10.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        self._serving = self.authority.server("apiserver", names)
        self._accounts = certificates.signing_pair(self.pki)

    def _run(self, name: str, *arguments: str) -> processes.Process:
        part = processes.Process(name, [str(self._binaries / name), *arguments], log=self.logs / f"{name}.log")
        self._parts[name] = part
        part.start()
        return part

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peer}"
        part = self._run(
            "etcd",
            f"--data-dir={self._etcd_data}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
        )
        part.wait_until(lambda: _answers_ok(f"{client}/readyz"), 30)

    def _start_apiserver(self) -> None:
        part = self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            # A loopback address is refused as an endpoint of the kubernetes service.
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={self._serving.certificate}",
            f"--tls-private-key-file={self._serving.key}",
            f"--client-ca-file={self.authority.certificate}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._accounts.certificate}",
            f"--service-account-signing-key-file={self._accounts.key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=0",
            "--max-mutating-requests-inflight=0",
            f"--cert-dir={self.pki}",
            # Nobody comes through a front proxy; without these the other parts complain in their logs for ever.
            f"--requestheader-client-ca-file={self.authority.certificate}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--audit-policy-file={self._audit_policy}",
            f"--audit-log-path={self.audit_log}",
            *(["--disable-admission-plugins=TaintNodesByCondition"] if self._large else []),
        )
        part.wait_until(self.kube.ready)

    def _start_controller_manager(self) -> None:
        credentials = str(self.kubeconfig("controller-manager"))
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={credentials}",
            f"--authentication-kubeconfig={credentials}",
            f"--authorization-kubeconfig={credentials}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._kcm}",
            "--leader-elect=false",
            f"--cert-dir={self.pki}",
            # Without it RBAC forbids the controllers nearly everything, and no node ever loses its taint.
            "--use-service-account-credentials=true",
            f"--root-ca-file={self.authority.certificate}",
            f"--service-account-private-key-file={self._accounts.key}",
            "--kube-api-qps=1000",
            "--kube-api-burst=1000",
            "--allocate-node-cidrs=false",
            *([f"--controllers={','.join(_LARGE_CONTROLLERS)}"] if self._large else []),
        )

    def _start_kwok(self) -> None:
        self._run(
            "kwok",
            f"--kubeconfig={self.kubeconfig('kwok')}",
            f"--config={HERE / 'stages.yaml'}",
            "--manage-all-nodes=false",
            "--manage-nodes-with-label-selector=type=kwok",
            "--cidr=10.244.0.0/16",
            "--node-ip=127.0.0.1",
            # Renewed after a quarter of it; the node controller calls a node lost after 50 s of silence.
            f"--node-lease-duration-seconds={0 if self._large else 40}",
        )


@contextlib.contextmanager
def running(folder: Path, binaries: Path, *, large: bool = False) -> Iterator[ControlPlane]:
    """A started control plane without a scheduler, stopped at the end; its logs stay in `folder`."""
    plane = ControlPlane(folder, binaries, large=large)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


def _folder_in_memory(otherwise: Path) -> Path:
    """A folder for etcd's data, on a tmpfs where there is one; what killed runs left there is swept away."""
    if not _SHARED_MEMORY.is_dir():
        return _made(otherwise / "etcd")
    for left in _SHARED_MEMORY.glob(f"{_ETCD}*"):
        owner = left.name.removeprefix(_ETCD).split("-")[0]
        if not Path("/proc", owner).exists():
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_ETCD}{os.getpid()}-", dir=_SHARED_MEMORY))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _answers_ok(url: str) -> bool:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # parts that make their own certificate; only their health is asked
    with urllib.request.urlopen(url, timeout=2, context=context) as answer:  # noqa: S310 - loopback
        return bool(answer.status == 200)
