"""An explanation as a page shows it: the same data as REST has, with plain words and bars drawn to scale."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext

from accounting.pages import reasons
from accounting.selectors import explained, pods
from accounting.selectors.access import Reach
from accounting.services import device_config, what_if
from hami_platform.domain import explain
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.rows import PodRow
from hami_platform.domain.sentences import Sentence
from hami_platform.domain.view import View

OPENED = ("no_fit_now", "never_fits")
"""Verdicts for which the nearest node's devices are shown without being asked for."""
SHOWN_NODES = 20
SHOWN_DEVICES = 16


def tell(sentence: Sentence) -> str:
    """In the reader's language, digits in groups."""
    return sentence.text(gettext, pods.grouped)


def reader(view: View, reach: Reach) -> explained.Reader:
    """Somebody who reads a page."""
    return explained.Reader(view, reach, device_config.device_config(), tell)


def why(view: View, reach: Reach, row: PodRow) -> dict[str, Any]:
    """Why a live pod waits."""
    return shown(explained.of_pod(reader(view, reach), row, what_if.explain_pod(view, row)))


def of_ask(view: View, reach: Reach, namespace: str, request: PodRequest, found: explain.Explanation) -> dict[str, Any]:
    """The same of a pod that does not exist."""
    return shown(explained.of_ask(reader(view, reach), namespace, request, found))


def shown(data: dict[str, Any]) -> dict[str, Any]:
    """The data with what only a page needs."""
    look, words = reasons.VERDICTS[data["verdict"]]
    nodes = [
        node
        | {
            "words": reasons.words(node["code"]),
            "open": place == 0 and data["verdict"] in OPENED,
            "devices_all": len(node["devices"]),
            "devices": [_drawn(card) for card in node["devices"][:SHOWN_DEVICES]],
        }
        for place, node in enumerate(data["nodes"][:SHOWN_NODES])
    ]
    return data | {
        "look": look,
        "verdict_words": words,
        "checks": [
            check | {"label": reasons.STAGES[check["stage"]], "unit": _unit(check["unit"])} for check in data["checks"]
        ],
        "reasons": [one | {"words": reasons.words(one["code"])} for one in data["reasons"]],
        "nodes": nodes,
        "preempts": any(step["kind"] == "preempt" for fix in data["fixes"] for step in fix["steps"]),
        "nodes_left_out": data["candidates"] - len(nodes),
        "fixes": [
            fix | {"steps": [step | {"who": reasons.ROLES[step["role"]]} for step in fix["steps"]]}
            for fix in data["fixes"]
        ],
    }


def _drawn(card: dict[str, Any]) -> dict[str, Any]:
    """The device with its bar: what is used, kept back, free, and what the pod needs, in percent of the width.

    The scale grows where the need goes beyond the device, so that the missing part is seen.
    """
    used = card["memory_mib"] - card["reserved_mib"] - card["free_mib"]
    full = max(card["memory_mib"], used + card["reserved_mib"] + card["need_mib"], 1)
    taken = used + card["reserved_mib"]
    inside = max(0, min(card["need_mib"], card["memory_mib"] - taken))
    pieces = [
        ("solid", 0, used), ("kept", used, card["reserved_mib"]),
        ("need", taken, inside), ("over", taken + inside, card["need_mib"] - inside),
    ]  # fmt: skip
    return card | {
        "words": reasons.words(card["code"]),
        "used_mib": used,
        "pieces": [(kind, _percent(start, full), _percent(width, full)) for kind, start, width in pieces if width > 0],
        "total": _percent(card["memory_mib"], full),
        "short_mib": max(0, card["need_mib"] - card["free_mib"]),
        "holders": card["holders"][:8],
        "more_holders": max(0, len(card["holders"]) - 8),
    }


def _unit(word: str) -> str:
    return gettext("devices") if word == "devices" else word


def _percent(amount: int, full: int) -> str:
    return f"{amount * 100 / full:.2f}%"
