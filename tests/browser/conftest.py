"""A listener on a throw-away ledger, a browser, and pages that fail on any complaint of the browser."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser import demonstration, fill

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
START_S = 120
MINE_MS = 15_000


@dataclass(frozen=True)
class Site:
    """A running console."""

    url: str
    environ: dict[str, str]

    def run(self, *arguments: str) -> None:
        """Run Python in the site's settings."""
        subprocess.run([sys.executable, *arguments], cwd=ROOT, env=self.environ, check=True, timeout=120)


def chromium() -> str:
    """Where the system's browser is."""
    found = shutil.which("chromium")
    if found is None and os.environ.get("CI") == "true":
        pytest.fail("chromium is not installed")
    if found is None:
        pytest.skip("chromium is not installed")
    return found


@contextlib.contextmanager
def site_in(state: pathlib.Path, *, collected: bool) -> Iterator[Site]:
    """Make a ledger in the folder, fill it, and serve it until the block ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HAMI_")} | {
        "DJANGO_SETTINGS_MODULE": "hami_platform.settings",
        "HAMI_STATE_DIR": str(state),
        "HAMI_WEB_BIND": f"127.0.0.1:{port}",
        "HAMI_LISTENER_THREADS": "8",
        "PYTHONPATH": str(ROOT),
    }
    site = Site(f"http://127.0.0.1:{port}", environ)
    site.run("manage.py", "migrate", "--verbosity=0")
    site.run("manage.py", "createcachetable")
    if collected:
        site.run("manage.py", "collectstatic", "--noinput", "--verbosity=0")
    site.run("-m", "tests.browser.fill", "all")
    with (state / "web.log").open("wb") as log:
        arguments = [sys.executable, "manage.py", "serve", "--role", "web"]
        server = subprocess.Popen(arguments, cwd=ROOT, env=environ, stdout=log, stderr=log)
        try:
            _wait(site.url, server, state / "web.log")
            yield site
        finally:
            server.terminate()
            server.wait(timeout=30)


def _wait(url: str, server: subprocess.Popen[bytes], log: pathlib.Path) -> None:
    """Until the listener answers; what it logged if it does not."""
    end = time.monotonic() + START_S
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/accounts/login/", timeout=5):  # noqa: S310  (our own)
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"the listener did not start: {log.read_text()[-2000:]}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whichever test comes first pays for the site that all share: on a busy machine more than a test's usual time."""
    here = pathlib.Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The console with static files straight from the source."""
    with site_in(tmp_path_factory.mktemp("console"), collected=False) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One chromium for all tests."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        yield running
        running.close()


@pytest.fixture(scope="session")
def sessions(site: Site, browser: Browser) -> Callable[[str], dict[str, object]]:
    """Cookies of a signed-in person; each signs in once."""
    known: dict[str, dict[str, object]] = {}

    def of(person: str) -> dict[str, object]:
        if person not in known:
            context = browser.new_context()
            page = context.new_page()
            sign_in(page, site, person)
            known[person] = dict(context.storage_state())
            context.close()
        return known[person]

    return of


def sign_in(page: Page, site: Site, person: str) -> None:
    """By the form, as people do."""
    page.goto(f"{site.url}/accounts/login/")
    page.get_by_label("Username").fill(person)
    page.get_by_label("Password").fill(fill.PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


Opener = Callable[..., Page]


@pytest.fixture
def opened(site: Site, browser: Browser, sessions: Callable[[str], dict[str, object]]) -> Iterator[Opener]:
    """Open pages as somebody. Afterwards: the browser complained about nothing and asked nobody else."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_(path: str, person: str = "root", **options: object) -> Page:
        context = browser.new_context(storage_state=sessions(person), **options)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(MINE_MS)
        watch(page, site, complaints)
        page.goto(site.url + path)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


def watch(page: Page, site: Site, complaints: list[str]) -> None:
    """Note errors on the console, uncaught exceptions, and requests to anybody else."""
    page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda sent: None if _ours(sent.url, site) else complaints.append(f"asked {sent.url}"))


def _ours(url: str, site: Site) -> bool:
    return url.startswith((site.url + "/", "data:"))


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[demonstration.Demonstration]:
    """The whole demonstration, once for all tests."""
    with demonstration.running(tmp_path_factory.mktemp("d") / "demo") as running:
        yield running


@pytest.fixture(scope="session")
def signed_in(
    demo: demonstration.Demonstration, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """Where the cookies of the demonstration's operator are."""
    kept = tmp_path_factory.mktemp("cookies") / "admin.json"
    context = browser.new_context()
    page = context.new_page()
    page.goto(demo.url + demo.sign_in_path())
    page.get_by_role("button").click()
    page.wait_for_url(f"{demo.url}/")
    context.storage_state(path=kept)
    context.close()
    return kept
