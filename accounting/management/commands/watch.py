"""Runs the watcher until it is told to stop. Start as many as you like: one works, the others stand by."""

from __future__ import annotations

import signal
from typing import Any

from django.core.management.base import BaseCommand

from accounting.services import office
from accounting.services.cluster_api import cluster_api
from accounting.services.device_config import device_config
from accounting.watcher import Watcher
from hami_platform import collector, env, metrics


class Command(BaseCommand):
    """`manage.py watch`."""

    help = "Follow the cluster's nodes, pods and quotas, and keep the ledger current."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Watch until SIGTERM or SIGINT."""
        watcher = Watcher(cluster_api(), device_config(), holder=office.identity())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: watcher.stop())
        if (bind := env.current().metrics_bind) is not None:
            metrics.serve(bind)
        collector.calm()
        watcher.run()
