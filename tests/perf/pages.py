"""What pages of the console cost over a filled database: `python -m tests.perf.pages`. Prints milliseconds by path.

A process of its own with the product's settings, as the web listener is. Of each page the best of several renderings:
other programs on the machine only ever add.
"""

from __future__ import annotations

import json
import sys
import time

import django

PATHS = (
    "/",
    "/?colour=cores",
    "/?colour=use",
    "/?colour=temperature",
    "/?colour=health",
    "/pending",
    "/pods",
    "/nodes",
    "/devices",
    "/quotas",
    "/namespaces/team0",
    "/nodes/n7",
    "/devices/GPU-n7-0",
    "/usage",
    "/usage?by=owner&window=30d",
    "/budgets",
    "/budgets/1",
    "/waste",
    "/waste?by=pod&window=today&namespace=team0",
    "/fragmentation",
    "/idle",
    "/api/v1/pods",
    "/api/v1/pods?q=7&ordering=-created",
    "/api/v1/devices",
    "/api/v1/quotas",
)
TRIES = 3


def main() -> None:
    """Render every page as a superuser, after one rendering that loads the View."""
    django.setup()
    from django.test import Client

    from accounting.models import User
    from hami_platform import collector
    from tests.perf import usage_fill

    usage_fill.past_fill()
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(User.objects.create_superuser("bench"))
    collector.calm()
    found = {}
    for path in (PATHS[0], *PATHS):
        found[path] = min(_took_ms(client, path) for _ in range(TRIES))
    sys.stdout.write(json.dumps(found))


def _took_ms(client: django.test.Client, path: str) -> float:
    began = time.thread_time()
    answer = client.get(path)
    took_ms = (time.thread_time() - began) * 1000
    assert answer.status_code == 200, (path, answer.status_code)
    return took_ms


if __name__ == "__main__":
    main()
