"""Puts the monitor together: its loops, its metrics, its reports.

Must not know: what the parts do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deviceplugin import (
    board,
    checkpoint,
    completion,
    inventory,
    looks,
    loops,
    monitor,
    monitor_metrics,
    monitor_pods,
    monitor_report,
    monitor_samples,
)
from hami_platform import health, metrics
from hami_platform.kube import api


@dataclass(frozen=True, slots=True)
class Options:
    """What the monitor needs to be told.

    steer: write the words that hold launches back. legacy: old metric names. report_period_s 0: nothing is reported.
    """

    steer: bool = True
    legacy: bool = False
    memory_scaling: float = 1.0
    report_period_s: float = 60.0
    period_s: float = monitor.PERIOD_S


@dataclass(frozen=True, slots=True)
class Seen:
    """What the monitor looks at."""

    kube: api.Api
    shown: board.Board
    record: checkpoint.Checkpoint
    cards: inventory.Inventory


def _nothing() -> None:
    """No monitor, nothing to close."""


@dataclass(frozen=True, slots=True)
class Monitoring:
    """The loops to run, and what to call once they have ended."""

    loops: tuple[loops.Loop, ...] = ()
    close: Callable[[], None] = _nothing
    looks: Mapping[str, health.Look] = field(default_factory=dict)


def monitoring(
    node: str, options: Options, seen: Seen, directories: Path, platform: completion.Platform | None, stop: loops.Stop
) -> Monitoring:
    """The monitor of one node. platform None: measurements are shown, and reported to nobody."""
    if not options.report_period_s:
        platform = None
    samples = monitor_samples.Samples() if platform is not None else None  # nobody would take them
    pods = monitor_pods.PodsHere(node, seen.kube)
    watching = monitor.Monitor(
        monitor.Options(directories, options.steer, options.memory_scaling, options.period_s),
        pods,
        seen.shown,
        seen.record,
        seen.cards,
        samples,
    )
    metrics.register(monitor_metrics.MonitorCollector(node, lambda: watching.picture, legacy=options.legacy))
    made = [loops.Loop("monitor", watching.step, stop)]
    seen_by: dict[str, health.Look] = {"monitor": lambda: looks.measured(lambda: watching.picture.at_s)}
    if platform is not None and samples is not None:
        reporter = monitor_report.Reporter(node, platform, samples, options.report_period_s)
        made.append(loops.Loop("measurements", reporter.step, stop))
        seen_by["platform"] = lambda: "it takes no measurements now" if reporter.failing else health.OK
    return Monitoring(tuple(made), pods.close, seen_by)
