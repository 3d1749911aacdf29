"""From settings to the agent's choices about runtimes, CDI and refits.

Must not know: what becomes of the choices.
"""

from __future__ import annotations

from pathlib import Path

from deviceplugin import align, cdi, driver_files, refit, runtime, specs
from hami_platform import env

SERVICE_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
"""Where Kubernetes puts the token of a pod's service account."""


def handing(settings: env.Settings) -> runtime.Handing:
    """How devices are named to the runtime. Raises BadSettingsError."""
    if not settings.device_list_strategy:
        raise env.BadSettingsError(["HAMI_DEVICE_LIST_STRATEGY: name at least one strategy"])
    extras = {
        "gdrcopy": settings.gdrcopy_enabled,
        "gds": settings.gds_enabled,
        "mofed": settings.mofed_enabled,
    }
    return runtime.Handing(
        strategies=settings.device_list_strategy,
        by_index=settings.device_id_strategy == "index",
        specs=settings.pass_device_specs,
        dev_root=settings.dev_root or settings.driver_root,
        cdi_prefix=settings.cdi_annotation_prefix,
        extras=tuple(name for name, enabled in extras.items() if enabled),
        imex=settings.imex_channel_ids,
    )


def dev_inside(settings: env.Settings) -> Path:
    """The folder above the host's `dev/`, as this process sees it."""
    inside = Path(settings.driver_root_inside)
    return inside if (inside / "dev").is_dir() else Path("/")


def cdi_plan(settings: env.Settings, handed: runtime.Handing) -> specs.Plan | None:
    """What specifications need; None where no strategy uses them. Raises BadSettingsError."""
    if not handed.uses_cdi:
        return None
    if settings.inventory_file:
        raise env.BadSettingsError(["HAMI_DEVICE_LIST_STRATEGY: CDI needs real devices, not HAMI_INVENTORY_FILE"])
    inside = Path(settings.driver_root_inside)
    try:
        files = driver_files.find(inside if inside.is_dir() else Path(settings.driver_root))
    except driver_files.NoDriverError as error:
        raise env.BadSettingsError([f"HAMI_DRIVER_ROOT_INSIDE: {error}"]) from error
    host = cdi.Host(settings.driver_root, handed.dev_root, settings.cdi_hook_path)
    return specs.Plan(Path(settings.cdi_dir), files, host)


def mover(settings: env.Settings) -> align.Mover | None:
    """Who can move a container to other cards. Raises BadSettingsError."""
    if not settings.scheduler_endpoint:
        return None
    if not settings.scheduler_endpoint.startswith(("http://", "https://")):
        raise env.BadSettingsError(["HAMI_SCHEDULER_ENDPOINT: must begin with http:// or https://"])

    def token() -> str:
        if settings.internal_token:
            return settings.internal_token
        return SERVICE_TOKEN.read_text().strip() if SERVICE_TOKEN.is_file() else ""

    return refit.Scheduler(
        settings.scheduler_endpoint, token, settings.scheduler_ca_file or None, insecure=settings.scheduler_tls_insecure
    )
