"""What people have decided in the demonstration: tenants, quotas, roles, prices. Values only, for `demo_fill`."""

from __future__ import annotations

from typing import Any, Final

from hami_platform.demo import fleet

HISTORY_DAYS: Final = 30

TENANTS: Final = (
    {"name": "research", "note": "Everything that trains models."},
    {"name": "language", "parent": "research"},
    {"name": "vision", "parent": "research"},
    {"name": "product", "note": "What customers use."},
    {"name": "platform", "note": "Shared services."},
)
NAMESPACES: Final = (
    {"name": "nlp", "tenant": "language", "mode": "enforce"},
    {"name": "llm-train", "tenant": "language", "mode": "wait"},
    {"name": "imaging", "tenant": "vision", "mode": "enforce"},
    {"name": "robotics", "tenant": "vision", "mode": "warn"},
    {"name": "recsys", "tenant": "product", "mode": "enforce"},
    {"name": "search", "tenant": "product", "mode": "wait"},
    {"name": "batch", "tenant": "platform", "mode": "observe"},
    {"name": "notebooks", "tenant": "platform", "mode": "enforce"},
)
QUOTAS: Final[tuple[dict[str, Any], ...]] = (
    {"namespace": "nlp", "limits": {"devices": 24, "memory_mib": 491520}},
    {"namespace": "llm-train", "limits": {"devices": 12, "memory_mib": 491520, "pod_devices": 16}},
    {"namespace": "imaging", "limits": {"memory_mib": 409600, "core_percent": 800}},
    {"namespace": "robotics", "limits": {"memory_mib": 61440}},
    {"namespace": "recsys", "limits": {"devices": 20, "memory_mib": 245760}},
    {"namespace": "search", "limits": {"memory_mib": 122880, "device_memory_mib": 20480}},
    {"namespace": "notebooks", "limits": {"devices": 12, "pod_devices": 1, "pod_memory_mib": 12288}},
    {"tenant": "research", "limits": {"memory_mib": 1638400}},
    {
        "tenant": "product",
        "name": "h100",
        "limits": {"devices": 16},
        "selector": {"vendor": "NVIDIA", "model_pattern": "*H100*"},
    },
)
# Those for once begin and end so many days from today: one will be spent early, one is spent, one lasts.
BUDGETS: Final[tuple[dict[str, Any], ...]] = (
    {"tenant": "research", "plan": {"device_hours": 9000, "amount": "24000", "currency": "EUR", "period": "quarter"}},
    {"tenant": "product", "plan": {"device_hours": 2600, "period": "month"}},
    {"namespace": "llm-train", "plan": {"device_hours": 1900}, "days": (-20, 10)},
    {
        "namespace": "nlp",
        "name": "a100",
        "plan": {"amount": "2900", "currency": "EUR"},
        "days": (-25, 5),
        "selector": {"vendor": "NVIDIA", "model_pattern": "*A100*"},
    },
    {"namespace": "imaging", "plan": {"device_hours": 3000}, "days": (-15, 15)},
)
PRICES: Final = (
    {"vendor": "NVIDIA", "model_pattern": "*H100*", "device_hour": "3.9000"},
    {"vendor": "NVIDIA", "model_pattern": "*A100*", "device_hour": "2.1000"},
    {"vendor": "NVIDIA", "model_pattern": "*L40S*", "device_hour": "1.1000"},
    {"vendor": "NVIDIA", "model_pattern": "*T4*", "device_hour": "0.3500"},
)
ADMIN: Final = "admin"
USERS: Final[tuple[dict[str, Any], ...]] = (
    {"name": ADMIN, "superuser": True, "roles": [{"role": "operator"}]},
    {"name": "alice", "roles": [{"role": "tenant-admin", "tenant": "language"}]},
    {"name": "bob", "roles": [{"role": "member", "namespace": "imaging"}, {"role": "viewer", "tenant": "vision"}]},
)
# (namespace, model, share of that model's cards that it uses on an ordinary day)
USAGE: Final = (
    ("nlp", "NVIDIA A100-SXM4-80GB", 0.20, 20),
    ("llm-train", "NVIDIA H100 80GB HBM3", 0.60, 8),
    ("imaging", "NVIDIA A100-SXM4-80GB", 0.30, 20),
    ("robotics", "NVIDIA L40S", 0.25, 8),
    ("recsys", "NVIDIA L40S", 0.40, 8),
    ("search", "Tesla T4", 0.50, 4),
    ("batch", "NVIDIA A100-SXM4-80GB", 0.15, 20),
    ("notebooks", "Tesla T4", 0.20, 4),
)


def scenario(seed: int) -> dict[str, Any]:
    """Everything for `manage.py demo_fill`, as JSON can carry it."""
    held_on, held = fleet.HELD
    cordoned_on, cordoned = fleet.CORDONED
    return {
        "seed": seed,
        "tenants": TENANTS,
        "namespaces": NAMESPACES,
        "quotas": QUOTAS,
        "budgets": BUDGETS,
        "prices": PRICES,
        "users": USERS,
        "sign_in": ADMIN,
        "hold": {
            "node": held_on,
            "uuid": fleet.BY_NAME[held_on].uuid(held),
            "memory_mib": 20480,
            "core_percent": 20,
            "slots": 1,
            "reason": "Profiling session of the compiler team, until Friday",
        },
        "cordon": {
            "node": cordoned_on,
            "uuid": fleet.BY_NAME[cordoned_on].uuid(cordoned),
            "reason": "Fan makes noise; exchange is ordered",
        },
        "usage": [_usage(*one) for one in USAGE],
        "history_days": HISTORY_DAYS,
    }


def _usage(namespace: str, model: str, share: float, cards: int) -> dict[str, Any]:
    node = next(node for node in fleet.NODES if node.model == model)
    return {
        "namespace": namespace,
        "model": node.registered_model,
        "share": share,
        "cards": cards,
        "memory_mib": node.memory_mib,
    }
