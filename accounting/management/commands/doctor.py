"""Says whether the platform can work in this cluster, and how to mend what stands in the way."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounting.services import doctor
from accounting.services.cluster_api import cluster_api
from accounting.services.device_config import device_config
from accounting.services.doctor_cluster import BAD, GOOD, ODD, UNKNOWN
from hami_platform.kube import errors

MARKS = {GOOD: "✓", BAD: "✕", ODD: "!", UNKNOWN: "?"}


class Command(BaseCommand):
    """`manage.py doctor`: exit 0 when all is well or only odd, 1 when something is in the way, 2 without settings."""

    help = "Look at cluster and platform, and say what mends what is wrong. Exit code 0: well, 1: not, 2: input."

    def add_arguments(self, parser: Any) -> None:
        """Text unless asked otherwise."""
        parser.add_argument("--json", action="store_true")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print each check."""
        try:
            api = cluster_api()
        except errors.Misconfigured as fault:
            raise CommandError(f"HAMI_KUBECONFIG: {fault}", returncode=2) from fault
        found = doctor.examine(api, config=device_config(), now_s=time.time())
        if options["json"]:
            self.stdout.write(
                json.dumps({"verdict": doctor.worst(found), "checks": [one.told() for one in found]}, indent=2)
            )
        else:
            for line in _lines(found):
                self.stdout.write(line)
        if doctor.worst(found) == BAD:
            sys.exit(1)


def _lines(found: Sequence[doctor.Check]) -> Iterator[str]:
    width = max(len(one.name) for one in found)
    for one in found:
        yield f"{MARKS[one.verdict]} {one.name.ljust(width)}  {one.text}"
        if one.mend:
            yield f"  {' ' * width}  → {one.mend}"
    counts = {verdict: sum(one.verdict == verdict for one in found) for verdict in MARKS}
    yield f"{counts[GOOD]} good, {counts[BAD]} bad, {counts[ODD]} to look at, {counts[UNKNOWN]} not known"
