"""Every page of console and admin in Chinese, on a ledger in which something of everything happens: what still reads as
English is a text that nobody gave to the translators.

Names, units and codes stay as they are in any language: they are listed here, and nothing else is English.
"""

from __future__ import annotations

import html.parser
import re
from collections.abc import Iterator

import pytest
from django.db.models import Model
from django.test import Client
from django.urls import NoReverseMatch, reverse
from django.utils import translation

from accounting import models, urls
from accounting.admin.console import site
from tests.accounting.test_csv_tables import without_link
from tests.accounting.test_roles_everywhere import addresses
from tests.browser import fill

pytestmark = pytest.mark.django_db

SHOWN = ("title", "aria-label", "placeholder", "alt", "data-ago", "data-in")
UNSEEN = ("script", "style", "code", "pre", "kbd", "textarea")
NAMES = {
    "HAMi", "NVIDIA", "Kubernetes", "API", "REST", "CSV", "YAML", "JSON", "GPU", "MIG", "MiB", "GiB", "PCIE", "UTC",
    "NUMA", "URL", "Redis", "SQLite", "PostgreSQL", "XID", "EUR", "TLS", "CDI", "NVML", "HTTP", "POST", "PEM", "LDAP",
    "OFED", "IMEX", "Pod", "Pods", "Uid", "uid", "uuid", "Uuid", "UUID", "init", "app", "sidecar", "webhook",
    "extender", "CPU", "Web", "vGPUmonitor",
    "kubelet", "worker", "beat", "web", "celery", "watch", "watcher", "agent", "kernel", "Lease", "Deployment",
    "DaemonSet", "ResourceQuota", "Celery", "Cookie", "Django", "Bearer", "TokenReview", "OpenID", "Connect", "SHA",
    "creationTimestamp", "generateName", "allocatable", "score", "webauthn", "JavaScript", "Mac", "Control", "Command",
    "IDs", "PIN", "Email", "read", "write", "csv", "yaml", "json", "https", "false", "enforce", "count", "hami",
    "text", "tool",
    "none", "single", "mixed", "GDRCopy", "GPUDirect", "Storage", "Mellanox", "Allocate", "CLUSTER", "schedulerName",
}  # fmt: skip
"""Of products, protocols, units and parts of Kubernetes."""
DATA = {
    "root", "ann", "eve", "kay", "train", "shop", "till", "gone", "next", "big", "slice", "labs", "spare", "desk",
    "edge", "nlp", "default", "main", "load", "incarnation", "clock", "sqlite", "pod", "node", "quota", "mig", "test",
    "member", "Search", "True", "False", "None",
}  # fmt: skip
"""Names in the ledger that is looked at, keys of its journal, and what Django's icons say."""
SAID = ("set up for a look", "fan is loud", "a team's year")
"""Texts of people."""
ACCOUNT = (
    "/accounts/login/", "/accounts/logout/", "/accounts/password/change/", "/accounts/password/reset/",
    "/accounts/email/", "/accounts/2fa/", "/accounts/reauthenticate/", "/accounts/2fa/webauthn/", "/api/docs",
)  # fmt: skip
"""Pages about who signs in, allauth's among them, and the frame of the API's reference."""
STATES = (*models.PodState.values, *models.Mode.values)
WORD = re.compile(r"[A-Za-z][A-Za-z']{2,}")
CODE = re.compile(
    r"`[^`]*`|\S*[-_/.=\d@*]\S*"  # whatever has a sign of code in it
    r"|\b[A-Z][a-z]+(?:[A-Z][a-z]*)+\b"  # reason words such as CardInsufficientMemory
    r"|^\(?\w+(?: \| \w+)+\)?"  # values of a column, such as `init | sidecar | app`
    rf"|\b(?:{'|'.join(STATES)})(?=：)"  # a state's or a mode's code before its explanation
)


class Texts(html.parser.HTMLParser):
    """What somebody sees or hears of a page, without code."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.found += [given[name] or "" for name in SHOWN if name in given]
        if tag == "input" and given.get("type") in ("submit", "button"):
            self.found.append(given.get("value") or "")
        if (
            tag in UNSEEN
            or given.get("translate") == "no"
            or given.get("lang") == "en"
            or (self.open and self.open[-1] == tag)
        ):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if not self.open:
            self.found.append(data)


def english(page: str) -> set[str]:
    """Texts of a page in which a word is English."""
    read = Texts()
    read.feed(page)
    return {text for text in (" ".join(one.split()) for one in read.found) if _words(text)}


def _words(text: str) -> set[str]:
    if text.startswith(("{", "[")):
        return set()  # JSON, as it is stored
    for said in SAID:
        text = text.replace(said, "")
    return set(WORD.findall(CODE.sub(" ", text))) - NAMES - DATA


@pytest.fixture
def desk() -> Client:
    fill.everything()
    client = Client(HTTP_ACCEPT_LANGUAGE="zh-hans")
    client.force_login(models.User.objects.get(username="root"))
    return client


def pages() -> Iterator[str]:
    """Every address of the console that there is something at."""
    given = {"alpha": "nlp", "uid-alpha-pod": "uid-train"}
    for listed, path, _ in addresses(urls.urlpatterns, "page"):
        if not listed.startswith(("login/", "language")):
            named = path.replace("tenants/alpha", "tenants/labs").split("/")
            yield "/" + "/".join(given.get(part, part) for part in named)
    yield from ("/pods/uid-big", "/devices/GPU-m1-0", "/quotas/new?tenant=labs", "/pods?state=pending", "/nowhere")
    yield "/simulate?devices=2&memory_mib=30000&change=drain&node=n1"


def desks() -> Iterator[str]:
    """Every page of the admin, of one row where there is one."""
    yield reverse("admin:index")
    for model in site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        row = model._default_manager.first()
        yield from _of(name, ("changelist", "add", "import"), None)
        yield from _of(name, ("change", "history", "delete"), row)


def _of(name: str, kinds: tuple[str, ...], row: Model | None) -> Iterator[str]:
    for kind in kinds:
        if row is None and kind in ("change", "history", "delete"):
            continue
        try:
            yield reverse(f"{name}_{kind}", args=[row.pk] if row is not None else [])
        except NoReverseMatch:
            continue


def test_no_page_reads_as_english_and_no_table_is_without_csv(desk: Client) -> None:
    told: dict[str, str] = {}
    bare: dict[str, list[str]] = {}
    with translation.override("zh-hans"):
        for path in (*pages(), *desks(), *ACCOUNT):
            answer = desk.get(path)
            if "html" in answer.headers["Content-Type"] and answer.status_code != 302:
                page = answer.content.decode()
                told |= dict.fromkeys(english(page), path)
                if not path.startswith("/admin") and (tables := without_link(page)):
                    bare[path] = tables
    assert not told, "\n".join(f"{path}: {text}" for text, path in sorted(told.items(), key=lambda one: one[1]))
    assert not bare, bare


def test_what_reads_as_english_is_found() -> None:
    assert english('<p title="The node is gone">节点 n1</p>') == {"The node is gone"}
    assert english("<p>节点 n1 <b>gone away</b></p>") == {"gone away"}
    assert english('<p>CardInsufficientMemory 4 MiB <code>make demo</code> <i translate="no">word</i></p>') == set()
    assert english("<p>enforce：准入时拒绝</p><p>enforces it</p>") == {"enforces it"}
