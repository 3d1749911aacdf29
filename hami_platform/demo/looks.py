"""Looks at the running demonstration from outside, as a browser, kube-apiserver and kubectl do.

Every look answers at once; what does not answer yet is None or False. Must not know: processes.
"""

from __future__ import annotations

import http.client
import http.cookiejar
import json
import pathlib
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

_TIMEOUT_S: Final = 10.0
_AWAY: Final = (OSError, http.client.HTTPException, ValueError)
_FIELD: Final = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
_REASON: Final = re.compile(r"\b\d+ ([A-Z]\w+)")
GATED: Final = "SchedulingGated"


class Console:
    """A browser that has signed in with a one-time link."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        )

    def answers(self) -> bool:
        """Whether the listener serves pages."""
        try:
            return bool(self._read("accounts/login/"))
        except _AWAY:
            return False

    def sign_in(self, secret: str) -> None:
        """Open the link and press its button. Raises OSError, or ValueError when there is no button."""
        where = f"login/{secret}"
        found = _FIELD.search(self._read(where))
        if found is None:
            raise ValueError("the sign-in page has no form")
        self._read(where, {"csrfmiddlewaretoken": found.group(1)})

    def shown(self, texts: Collection[str], page: str = "") -> int:
        """How many of these texts a page shows."""
        try:
            content = self._read(page)
        except _AWAY:
            return 0
        return sum(1 for text in texts if text in content)

    def _read(self, page: str, form: dict[str, str] | None = None) -> str:
        data = urllib.parse.urlencode(form).encode() if form is not None else None
        headers = {"Referer": self._url} if form is not None else {}
        request = urllib.request.Request(f"{self._url}/{page}", data, headers)  # noqa: S310 - http, and our own
        with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
            text: str = answer.read().decode()
        return text


@dataclass(frozen=True, slots=True)
class Pods:
    """placed: pods on a node; reasons: why others wait, as kube-scheduler wrote it into them, with counts."""

    placed: int
    reasons: Counter[str]


def ready(url: str, authority: pathlib.Path | None = None) -> bool:
    """Whether a listener says that it could decide now."""
    context = ssl.create_default_context(cafile=authority) if authority and authority.exists() else None
    try:
        with _direct(context).open(f"{url}/readyz", timeout=_TIMEOUT_S) as answer:
            return bool(answer.status == 200)
    except _AWAY:
        return False


def api_answers(url: str) -> bool:
    """Whether the API server serves."""
    try:
        return bool(_json(f"{url}/api/v1/nodes")["items"])
    except _AWAY:
        return False


def api_create(url: str, body: dict[str, Any]) -> None:
    """POST an object to a collection; one that is there already is fine. Raises OSError."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")  # noqa: S310
    try:
        _direct().open(request, timeout=_TIMEOUT_S).close()
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != http.client.CONFLICT:
            raise


def pods(url: str) -> Pods:
    """What kubectl would show. Raises OSError."""
    items = _json(f"{url}/api/v1/pods")["items"]
    waiting = [pod for pod in items if not pod["spec"].get("nodeName")]
    return Pods(len(items) - len(waiting), Counter(filter(None, map(_reason, waiting))))


def _reason(pod: dict[str, Any]) -> str:
    """The dominant word of the scheduler's sentence: `0/6 nodes are available: 6 CardTypeMismatch.`"""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            if condition.get("reason") == GATED:
                return GATED
            words = _REASON.findall(condition.get("message") or "")
            return str(words[0]) if words else ""
    return ""


def _direct(context: ssl.SSLContext | None = None) -> urllib.request.OpenerDirector:
    """Past any proxy of the environment: all of it is on this machine."""
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


def _json(url: str) -> dict[str, Any]:
    with _direct().open(url, timeout=_TIMEOUT_S) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found
