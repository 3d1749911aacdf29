"""What the webhook is about in this installation: the vendors' resources and keys, and who may write them.

Must not know: match conditions, requests.
"""

from __future__ import annotations

from accounting.services import device_config
from hami_platform import env
from hami_platform.domain import admission
from scheduler_ext import webhook_config


def subject() -> webhook_config.Subject:
    """Resources, owned keys and their writers, from the device configuration and the settings."""
    config = device_config.device_config()
    owned = config.owned_keys
    return webhook_config.Subject(config.resource_names, owned.keys, owned.prefixes, writers())


def writers() -> tuple[str, ...]:
    """User and group names that may change owned keys: those configured, and our namespace's service accounts."""
    settings = env.current()
    ours = (f"system:serviceaccounts:{settings.pod_namespace}",) if settings.pod_namespace else ()
    return (*settings.owned_key_writers, *ours)


def admission_settings() -> admission.AdmissionSettings:
    """How pods are judged, from the settings."""
    settings = env.current()
    return admission.AdmissionSettings(
        scheduler_name=settings.scheduler_name,
        force_overwrite=settings.force_overwrite_default_scheduler,
        hami_codes=settings.strict_hami,
    )
