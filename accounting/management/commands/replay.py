"""Takes a kept decision again, on the command line."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q

from accounting import ledger, live_view
from accounting.management import printed
from accounting.management.commands.why import as_json
from accounting.models import Pod, Trace
from accounting.services import replay, replay_told

NOT_THE_SAME, BAD_INPUT = 1, 2


class Command(BaseCommand):
    """`manage.py replay DECISION`: exit 0 when the answer is the same, 1 when it is not or cannot be known, 2 when
    there is no such decision."""

    help = (
        "Take a decision again on exactly what it was taken on. Exit code 0: the same answer, 1: another one, or its "
        "inputs are not known any more, 2: input."
    )

    def add_arguments(self, parser: Any) -> None:
        """The decision by its number, or a pod, of which the last one is meant."""
        parser.add_argument(
            "decision", help="number of a decision, or of a pod its uid or namespace/name: its last one"
        )
        parser.add_argument("--json", action="store_true", help="As JSON, as REST answers.")
        parser.add_argument("--all", action="store_true", help="All decisions of the pod, newest first.")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Take it again."""
        view = live_view.live().refresh()
        found = traces(options["decision"])
        told = [
            replay_told.told(trace, replay.replayed(trace, view)) for trace in (found if options["all"] else found[:1])
        ]
        if options["json"]:
            self.stdout.write(as_json(told if options["all"] else told[0]))
        else:
            for one in told:
                for line in printed.replay(one):
                    self.stdout.write(line)
        if any(one["outcome"] != replay.Outcome.SAME for one in told):
            sys.exit(NOT_THE_SAME)


def traces(text: str) -> list[Trace]:
    """The decisions that are meant, newest first. Raises CommandError (2) where there are none."""
    mine = Trace.objects.filter(cluster=ledger.cluster_id()).order_by("-last_at", "-pk")
    if text.isascii() and text.isdigit():
        found = list(mine.filter(pk=int(text))) if len(text) < 19 else []
    else:
        namespace, _, name = text.rpartition("/")
        named = Q(namespace=namespace, pod_name=name) if namespace else Q(pod_uid=text)
        claims = Pod.objects.filter(cluster=ledger.cluster_id(), uid=text).exclude(claim_id="").values("claim_id")
        found = list(mine.filter(named | Q(pod_uid__in=claims)))
    if not found:
        raise CommandError(f"there is no kept decision of {text}", returncode=BAD_INPUT)
    return found
