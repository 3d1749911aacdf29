"""Checks of our own side: certificates, listeners, database, Redis, offices. See doctor."""

from __future__ import annotations

import http.client
import socket
import ssl
import urllib.request

from django.core.cache import cache
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor

from accounting import ledger, live_view
from accounting.models import ProcessLease
from accounting.selectors import freshness
from accounting.services.doctor_cluster import BAD, GOOD, ODD, UNKNOWN, Finding
from hami_platform import env
from hami_platform.domain.sentences import phrase
from hami_platform.kube import client, errors

TIMEOUT_S = 3.0


def authority() -> Finding:
    """Strict clients (Python 3.13, newer Go) refuse authorities without the extensions that RFC 5280 asks for."""
    try:
        server = client.configuration(client.Config(kubeconfig=env.current().kubeconfig))
    except errors.Misconfigured as fault:
        return UNKNOWN, str(fault), ""
    url, ca_file = str(server.host), server.ssl_ca_cert
    if not url.startswith("https:") or not ca_file:
        return UNKNOWN, phrase("%(url)s is not reached by a configured authority", url=url or "API server"), ""
    context = ssl.create_default_context(cafile=ca_file)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    host, _, port = url.removeprefix("https://").partition("/")[0].rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S) as plain:
            context.wrap_socket(plain, server_hostname=host.strip("[]")).close()
    except ssl.SSLCertVerificationError as fault:
        refused = phrase("strict clients refuse it: %(why)s", why=fault.verify_message)
        return ODD, refused, phrase("renew the cluster's authority with key usage")
    except OSError as fault:
        return UNKNOWN, f"{url}: {fault}", ""
    return GOOD, phrase("accepted by the strictest check"), ""


def extender() -> Finding:
    """Whether something listens where kube-scheduler beside it would call."""
    host, port = env.current().extender_bind.host or "127.0.0.1", env.current().extender_bind.port
    try:
        with socket.create_connection((host, port), TIMEOUT_S):
            return GOOD, phrase("something listens on %(where)s", where=f"{host}:{port}"), ""
    except OSError as fault:
        nobody = phrase(
            "nothing answers on %(where)s of this machine (%(why)s); it runs beside kube-scheduler",
            where=f"{host}:{port}",
            why=str(fault.strerror),
        )
        return UNKNOWN, nobody, "kubectl -n hami-system get pods -l app.kubernetes.io/component=scheduler"


def database() -> Finding:
    """Reachable, migrated, and compared with the API server."""
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
        if missing:
            return BAD, phrase("missing migrations: %(n)s", n=len(missing)), "./manage.py migrate"
        view = live_view.live().refresh()
    except (Error, ledger.LedgerUnavailable) as fault:
        return BAD, str(fault).splitlines()[0], phrase("look at HAMI_DATABASE_URL")
    if not view.ready:
        never = phrase("the ledger has never been compared with the API server: nothing is placed")
        return BAD, never, "./manage.py watch"
    return GOOD, phrase("%(kind)s, revision %(n)s", kind=connection.vendor, n=view.clock.revision), ""


def redis() -> Finding:
    """The broker and cache of production."""
    url = env.current().redis_url
    if not url:
        return ODD, phrase("not configured: tasks go by files and the cache is the database, for one machine"), ""
    try:
        cache.get("doctor")
    except Exception as fault:  # noqa: BLE001  the client's own classes are its module's business
        away = phrase("not reachable: %(why)s", why=str(fault))
        return BAD, away, phrase("look at HAMI_REDIS_URL; until then nothing is repaired periodically")
    return GOOD, phrase("answers"), ""


def watcher() -> Finding:
    """Somebody holds the watcher's office now."""
    lease = ProcessLease.objects.filter(cluster=ledger.cluster_id(), name=ledger.WATCHER).first()
    if lease is None or lease.until is None:
        return BAD, phrase("no watcher has ever run"), "./manage.py watch"
    age_s = (ledger.database_time() - lease.until).total_seconds()
    if age_s > 0:
        none = phrase("none since %(s)s s: %(who)s was the last", s=round(age_s), who=lease.holder)
        return BAD, none, "./manage.py watch"
    return GOOD, phrase("%(who)s, epoch %(n)s", who=lease.holder, n=lease.epoch), ""


def reconciliation() -> Finding:
    """The worker's ticks come."""
    age_s = freshness.reconciliation_age_s()
    start = phrase("run celery -A hami_platform worker, and celery -A hami_platform beat")
    if age_s is None:
        return BAD, phrase("has never run: missed events are not repaired"), start
    if age_s > freshness.OLD_S:
        return BAD, phrase("%(s)s s old: missed events are not repaired", s=age_s), start
    return GOOD, phrase("%(s)s s old", s=age_s), ""


def prometheus() -> Finding:
    """Whether our metrics answer here. Nothing that we show needs Prometheus."""
    bind = env.current().metrics_bind
    if bind is None:
        return UNKNOWN, phrase("this process has no metrics address; no page of ours needs Prometheus"), ""
    url = f"http://{bind.host or '127.0.0.1'}:{bind.port}/metrics"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            lines = answer.read().decode().splitlines()
    except (OSError, http.client.HTTPException) as fault:
        return ODD, f"{url}: {fault}", ""
    families = {line.split("{")[0].split(" ")[0] for line in lines if line and line[0] != "#"}
    return GOOD, phrase("%(n)s series names at %(url)s", n=len(families), url=url), ""
