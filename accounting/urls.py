"""Addresses of the console: natural keys, pods by uid."""

from __future__ import annotations

from django.urls import path
from django.views.i18n import set_language

from accounting.pages import (
    budget_form,
    budgets,
    doctor,
    idle,
    login,
    overview,
    pending,
    quota_form,
    quota_past,
    records,
    replays,
    simulation,
    tenancy,
    tokens,
    usage,
    waste,
    workloads,
)

app_name = "console"

urlpatterns = [
    path("", overview.overview, name="cluster"),
    path("nodes", overview.nodes, name="nodes"),
    path("nodes/<str:name>", overview.node, name="node"),
    path("devices", overview.devices, name="devices"),
    path("devices/<path:uuid>", overview.device, name="device"),
    path("pending", pending.pending, name="pending"),
    path("simulate", simulation.simulate, name="simulate"),
    path("pods", workloads.pod_list, name="pods"),
    path("pods/<str:key>", workloads.pod, name="pod"),
    path("decisions/<int:trace_id>", replays.decision, name="decision"),
    path("quotas", tenancy.quotas, name="quotas"),
    path("quotas/as-of", quota_past.quotas_as_of, name="quotas-as-of"),
    path("quotas/new", quota_form.quota_new, name="quota-new"),
    path("quotas/<int:quota_id>", quota_form.quota_edit, name="quota-edit"),
    path("budgets", budgets.budgets, name="budgets"),
    path("budgets/new", budget_form.budget_new, name="budget-new"),
    path("budgets/<int:budget_id>", budgets.budget, name="budget"),
    path("budgets/<int:budget_id>/change", budget_form.budget_edit, name="budget-edit"),
    path("namespaces/<str:name>", tenancy.namespace, name="namespace"),
    path("tenants/<slug:name>", tenancy.tenant, name="tenant"),
    path("usage", usage.usage, name="usage"),
    path("waste", waste.wasted, name="waste"),
    path("fragmentation", idle.fragmentation, name="fragmentation"),
    path("idle", idle.idle_shares, name="idle"),
    path("findings", records.findings, name="findings"),
    path("health", records.health_page, name="health"),
    path("connect", doctor.connect, name="connect"),
    path("settings", records.settings_page, name="settings"),
    path("activity", records.changes, name="activity"),
    path("tokens", tokens.own_tokens, name="tokens"),
    path("language", set_language, name="language"),
    path("login/<str:secret>", login.login_link, name="login-link"),
]
