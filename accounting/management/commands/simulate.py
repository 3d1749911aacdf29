"""What would happen if: a pod that does not exist, a quota, new nodes, a cordon or a drain, on the command line."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounting import live_view
from accounting.management import printed
from accounting.management.commands.why import BAD_INPUT, NO_FIT, as_json
from accounting.selectors import access, explained
from accounting.services import device_config, simulations
from accounting.services.errors import InvalidInput

AMOUNTS = ("devices", "memory", "memory_percent", "cores", "model")


class Command(BaseCommand):
    """`manage.py simulate FILE | --memory … [--quota …] [--drain …]`: exit 0 fits, 1 does not, 2 bad input."""

    help = (
        "Say where a pod would go, or why not, and what a change would do. Nothing is written. "
        "Exit code 0: it fits (and nothing is stranded), 1: not, 2: input."
    )

    def add_arguments(self, parser: Any) -> None:
        """A pod by file or by amounts, and changes; each change may be given several times."""
        parser.add_argument("file", nargs="?", help="Manifest in YAML or JSON; - for standard input.")
        parser.add_argument("-n", "--namespace", default="")
        parser.add_argument("--devices", "--gpus", type=int, default=None)
        parser.add_argument("--memory", type=int, default=None, metavar="MIB", help="MiB on each device.")
        parser.add_argument("--memory-percent", type=int, default=None, metavar="PERCENT")
        parser.add_argument("--cores", type=int, default=None, metavar="PERCENT", help="Percent of each device.")
        parser.add_argument("--model", default="", help="Part of the model's name.")
        parser.add_argument("--vendor", default="NVIDIA")
        parser.add_argument("--priority", type=int, default=0)
        parser.add_argument("--copies", type=int, default=1, help="So many pods like it.")
        parser.add_argument(
            "--quota", action="append", default=[], metavar="SCOPE/NAME:LIMIT=N[,…]",
            help="A quota as it would be, e.g. nlp/default:memory_mib=40000; a tenant's with tenant:labs/default:…",
        )  # fmt: skip
        parser.add_argument("--add-nodes", action="append", default=[], metavar="N:LIKE", help="N nodes like this one.")
        parser.add_argument("--cordon", action="append", default=[], metavar="UUID|node:NAME")
        parser.add_argument("--uncordon", action="append", default=[], metavar="UUID|node:NAME")
        parser.add_argument("--drain", action="append", default=[], metavar="NODE")
        parser.add_argument("--json", action="store_true", help="As JSON, as REST answers.")
        parser.add_argument("--nodes", type=int, default=printed.NODES_SHOWN, help="Nodes shown one by one.")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Ask, print, and say by the exit code whether it fits."""
        try:
            data = _answer(options)
        except InvalidInput as fault:
            raise CommandError(str(fault), returncode=BAD_INPUT) from fault
        if options["json"]:
            self.stdout.write(as_json(data))
        else:
            for line in printed.simulation(data, nodes=options["nodes"]):
                self.stdout.write(line)
        effect = data["effect"]
        if data["fits"] is False or (effect and (effect["strands_count"] or effect["homeless_count"])):
            sys.exit(NO_FIT)


def _answer(options: dict[str, Any]) -> dict[str, Any]:
    submitted, changes = _submitted(options), _changes(options)
    if submitted is None and not changes:
        raise InvalidInput("", "name a file, amounts of a pod, or a change")
    if not 1 <= options["copies"] <= simulations.MOST_COPIES:
        raise InvalidInput("--copies", f"1 to {simulations.MOST_COPIES}")
    view = live_view.live().refresh()
    found = simulations.simulation(view, submitted, changes, copies=options["copies"])
    reader = explained.Reader(view, access.ALL, device_config.device_config())
    return simulations.shown(reader, submitted, found)


def _submitted(options: dict[str, Any]) -> simulations.Submitted | None:
    by_amounts = any(options[name] not in (None, "") for name in AMOUNTS)
    if options["file"] and by_amounts:
        raise InvalidInput("file", "either a file or amounts")
    if options["file"]:
        return simulations.from_text(_text(options["file"]), options["namespace"])
    if not by_amounts:
        return None
    wish = simulations.Wish(
        options["namespace"] or simulations.DEFAULT_NAMESPACE, options["devices"] or 1, options["memory"],
        options["memory_percent"], options["cores"], options["model"], options["vendor"], options["priority"],
    )  # fmt: skip
    return simulations.from_wish(wish)


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else pathlib.Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise InvalidInput("file", str(fault)) from fault


def _changes(options: dict[str, Any]) -> list[dict[str, Any]]:
    found = [_quota(text) for text in options["quota"]]
    found += [_nodes(text) for text in options["add_nodes"]]
    for kind in ("cordon", "uncordon"):
        for text in options[kind]:
            node = text.removeprefix("node:")
            found.append({"kind": kind, "node": node} if node != text else {"kind": kind, "uuid": text})
    return found + [{"kind": "drain", "node": text} for text in options["drain"]]


def _quota(text: str) -> dict[str, Any]:
    """`nlp/default:memory_mib=40000,devices=4`; `=` without a number lifts a limit."""
    scope_word = "tenant" if text.startswith("tenant:") else "namespace"
    where, colon, given = text.removeprefix("tenant:").partition(":")
    scope, _, name = where.partition("/")
    limits: dict[str, int | None] = {}
    for part in given.split(",") if colon else ():
        limit, equals, value = part.partition("=")
        if not equals or not (value == "" or value.isdigit()):
            raise InvalidInput("--quota", f"{part}: a limit is NAME=NUMBER, or NAME= for no limit")
        limits[limit.strip()] = int(value) if value else None
    if not scope or not limits:
        raise InvalidInput("--quota", f"{text}: expected SCOPE/NAME:LIMIT=N")
    return {"kind": "quota", scope_word: scope, "name": name or "default", "limits": limits}


def _nodes(text: str) -> dict[str, Any]:
    count, _, like = text.partition(":")
    if not count.isdigit() or not like:
        raise InvalidInput("--add-nodes", f"{text}: expected N:LIKE, a number and the name of a node")
    return {"kind": "nodes", "count": int(count), "like": like}
