"""`python -m deviceplugin`: reads the settings, starts the agent, and ends it on SIGTERM.

Flags are HAMi's own spelling of the settings (`--node-name`, `--device-split-count`, …).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from deviceplugin import (
    agent,
    checkpoint,
    completion,
    configured,
    faces,
    grants,
    inventory,
    kubelet,
    libvgpu,
    loops,
    monitor_setup,
    nvml,
    register,
    tuning,
    xids,
)
from hami_platform import env, env_flags, logs, metrics
from hami_platform.domain import errors as wire_errors
from hami_platform.kube import client, errors


def tuned(settings: env.Settings) -> tuning.Tuning:
    """The settings, with HAMi's files over them. Raises BadSettingsError that names file and key."""
    found = tuning.Tuning(
        resource=settings.resource_name,
        slots=settings.device_split_count,
        memory_scaling=settings.device_memory_scaling,
        core_scaling=settings.device_core_scaling,
        log_level=settings.libcuda_log_level,
        numa=settings.enable_numa_topology,
        disable_core_limit=settings.disable_core_limit,
    )
    try:
        if file := settings.device_config_file:
            found = tuning.with_device_config(found, Path(file).read_text(encoding="utf-8"))
        if file := settings.node_config_file:
            found = tuning.with_node_config(found, Path(file).read_text(encoding="utf-8"), settings.node_name)
    except (OSError, UnicodeDecodeError, wire_errors.ConfigError) as error:
        raise env.BadSettingsError([f"{file}: {error}"]) from error
    return found


def options_of(settings: env.Settings, tuned_: tuning.Tuning) -> agent.Options:
    """The agent's options. Raises BadSettingsError for what only the agent needs."""
    problems = []
    if not settings.node_name:
        problems.append("HAMI_NODE_NAME: required; in a DaemonSet take it from spec.nodeName")
    if settings.platform_url and not settings.platform_url.startswith(("http://", "https://")):
        problems.append("HAMI_PLATFORM_URL: must begin with http:// or https://")
    if problems:
        raise env.BadSettingsError(problems)
    hami = settings.agent_mode == "hami"
    handing = configured.handing(settings)
    scaling = register.Scaling(tuned_.slots, tuned_.memory_scaling, tuned_.core_scaling)
    face = kubelet.Face(
        folder=Path(settings.kubelet_dir),
        resource=tuned_.resource,
        prefer=not hami if tuned_.prefer is None else tuned_.prefer,
        pre_start=settings.pre_start,
    )
    return agent.Options(
        node=settings.node_name,
        faces=faces.Plan(face, scaling, numa=tuned_.numa, strategy=settings.mig_strategy),
        state_file=Path(settings.state_dir) / "agent.json",
        scaling=scaling,
        handing=handing,
        cdi=configured.cdi_plan(settings, handing),
        dev_inside=configured.dev_inside(settings),
        mover=configured.mover(settings),
        scores=settings.topology_score,
        owns_mig=tuned_.owns_mig,
        pod_resources=Path(settings.pod_resources_socket) if settings.pod_resources_socket else None,
        enforcement=grants.Enforcement(
            hook=settings.hook_path.rstrip("/"),
            oversubscribe=tuned_.memory_scaling > 1,
            disable_core_limit=tuned_.disable_core_limit,
            log_level=tuned_.log_level,
            count_only=settings.limit_mode == "count",
        ),
        annotations=hami,
        check_library=not settings.inventory_file,  # made-up cards have no library to limit them
        library=_library(settings),
        platform=_platform(settings),
        monitor=_monitor(settings, tuned_),
        tidy_period_s=settings.resync_interval_s,
    )


def _platform(settings: env.Settings) -> completion.Platform | None:
    if not settings.platform_url:
        return None
    ca_file = Path(settings.platform_ca_file) if settings.platform_ca_file else None
    return completion.Platform(settings.platform_url, settings.internal_token, ca_file)


def _library(settings: env.Settings) -> libvgpu.Wanted | None:
    if settings.inventory_file and not settings.library_source:
        return None
    return libvgpu.Wanted(
        root=Path(f"{settings.hook_path.rstrip('/')}/vgpu"),
        source=Path(settings.library_source) if settings.library_source else None,
        sha256=settings.library_sha256,
        replace=settings.library_replace,
    )


def _monitor(settings: env.Settings, tuned_: tuning.Tuning) -> monitor_setup.Options | None:
    if not settings.monitor:
        return None
    return monitor_setup.Options(
        steer=settings.feedback,
        legacy=settings.legacy_metrics,
        memory_scaling=tuned_.memory_scaling,
        report_period_s=settings.measure_period_s,
    )


def cards_of(settings: env.Settings, tuned_: tuning.Tuning, environ: Mapping[str, str]) -> inventory.Inventory:
    """The cards named in a file, or those that NVML finds, without those to be left alone."""
    found: inventory.Inventory
    if settings.inventory_file:
        found = inventory.FileInventory(Path(settings.inventory_file))
    else:
        policy = xids.policy(environ.get("DP_DISABLE_HEALTHCHECKS", ""), environ.get("DP_ENABLE_HEALTHCHECKS", ""))
        nvml.preload(Path(settings.driver_root_inside))
        found = nvml.NvmlInventory(
            policy, memory_mib=tuned_.memory_mib, limit_c=settings.temperature_limit_c, profiles=tuned_.profiles
        )
    return inventory.Without(found, tuned_.left_out) if tuned_.left_out else found


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Exit status: 0 after a clean stop, 1 after a fault, 2 for settings that cannot be used."""
    stop = loops.Stop()
    _stop_on_signals(stop)
    again = _again_on_hangup(stop, arguments, environ)
    try:
        flags, ignored = env_flags.variables_of(arguments)
        settings = env.load({**environ, **flags})
        tuned_ = tuned(settings)
        options = options_of(settings, tuned_)
        logs.configure(settings.log_level, settings.log_format)
        cards = cards_of(settings, tuned_, environ)
        cards.scan()
        kube = client.KubeClient(client.Config(kubeconfig=settings.kubeconfig, user_agent="hami-platform-agent"))
        record = checkpoint.hold(options.state_file)
        if settings.metrics_bind:
            metrics.serve(settings.metrics_bind)
    except (
        env.BadSettingsError,
        inventory.InventoryError,
        errors.Misconfigured,
        checkpoint.HeldError,
        OSError,
    ) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if ignored:
        logs.get(__name__).info("flags_without_effect", flags=",".join(ignored))
    with record:
        status = agent.Agent(options, cards, kube, stop).run()
    if again.is_set() and not status:
        os.execv(sys.executable, [sys.executable, "-m", "deviceplugin", *arguments])  # noqa: S606 - itself
    return status


def _again_on_hangup(stop: loops.Stop, arguments: Sequence[str], environ: Mapping[str, str]) -> threading.Event:
    """SIGHUP begins anew with the files as they are now, as in HAMi; files that cannot be used change nothing.

    The answer is set once the agent is to begin again after it has stopped.
    """
    again = threading.Event()

    def look() -> None:
        try:
            settings = env.load({**environ, **env_flags.variables_of(arguments)[0]})
            options_of(settings, tuned(settings))
        except env.BadSettingsError as error:
            logs.get(__name__).error("not_begun_anew", error=str(error))
        else:
            again.set()
            stop.ask()

    def asked(_number: int, _frame: FrameType | None) -> None:
        threading.Thread(target=look, name="hangup", daemon=True).start()

    signal.signal(signal.SIGHUP, asked)
    return again


def _stop_on_signals(stop: loops.Stop) -> None:
    def asked(_number: int, _frame: FrameType | None) -> None:
        stop.ask()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, asked)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
