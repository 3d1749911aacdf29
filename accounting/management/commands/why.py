"""Why a pod waits, and what would make it run, on the command line."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounting import live_view
from accounting.management import printed
from accounting.selectors import access, explained
from accounting.services import device_config, what_if
from hami_platform.domain.rows import PodRow
from hami_platform.domain.view import View

PLACED = ("fits", "healthy", "waiting_for_bind")
NO_FIT, BAD_INPUT = 1, 2


class Command(BaseCommand):
    """`manage.py why POD`: exit 0 when it fits or has its devices, 1 when not, 2 when there is no such pod."""

    help = (
        "Say why a pod waits, with numbers, and what would make it run. Exit code 0: it fits or runs, 1: not, 2: input."
    )

    def add_arguments(self, parser: Any) -> None:
        """The pod, by uid, by namespace/name, or by name."""
        parser.add_argument("pod", help="uid, namespace/name, or name")
        parser.add_argument("-n", "--namespace", default="", help="Namespace of a pod that is given by name.")
        parser.add_argument("--json", action="store_true", help="As JSON, as REST answers.")
        parser.add_argument("--nodes", type=int, default=printed.NODES_SHOWN, help="Nodes shown one by one.")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Explain the pod on the ledger as it is now."""
        view = live_view.live().refresh()
        row = found(view, options["pod"], options["namespace"])
        reader = explained.Reader(view, access.ALL, device_config.device_config())
        data = explained.of_pod(reader, row, what_if.explain_pod(view, row))
        if options["json"]:
            self.stdout.write(as_json(data))
        else:
            for line in printed.explanation(data, nodes=options["nodes"]):
                self.stdout.write(line)
        if data["verdict"] not in PLACED:
            sys.exit(NO_FIT)


def found(view: View, text: str, namespace: str) -> PodRow:
    """The live pod that is meant. Raises CommandError (2) where there is none, or more than one."""
    by_uid = view.pod(text)
    if by_uid is not None:
        return by_uid
    where, _, name = text.rpartition("/")
    where = where or namespace
    rows: list[PodRow] = [
        row for row in view.pods.values() if row.name == name and (not where or row.namespace == where)
    ]
    if len(rows) == 1:
        return rows[0]
    if not rows:
        raise CommandError(f"there is no live pod {text} that asks for devices", returncode=BAD_INPUT)
    names = ", ".join(sorted(f"{row.namespace}/{row.name} ({row.uid})" for row in rows))
    raise CommandError(f"{text} is more than one pod: {names}", returncode=BAD_INPUT)


def as_json(data: Any) -> str:
    """Indented, times as REST writes them."""
    return json.dumps(data, default=_time, indent=2, ensure_ascii=False)


def _time(value: Any) -> str:
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r} is no JSON")
    return value.isoformat().replace("+00:00", "Z")
