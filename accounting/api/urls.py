"""Addresses of the REST API. `/api/v1/` is stable; the schema is at `/api/schema`."""

from __future__ import annotations

from django.urls import path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from accounting.api import (
    agent,
    agent_findings,
    base,
    budgets,
    devices,
    holds,
    measurements,
    pods,
    quotas,
    reads,
    records,
    replays,
    scopes,
    simulate,
    tokens,
    usage,
    waste,
)

app_name = "api"

urlpatterns = [
    path("agent/allocations", agent.AllocationsEndpoint.as_view(), name="allocations"),
    path("agent/findings", agent_findings.AgentFindingsEndpoint.as_view(), name="agent-findings"),
    path("agent/unmanaged", agent.UnmanagedEndpoint.as_view(), name="unmanaged"),
    path("v1/cluster", reads.ClusterEndpoint.as_view(), name="cluster"),
    path("v1/nodes", reads.NodesEndpoint.as_view(), name="nodes"),
    path("v1/nodes/<str:name>", reads.NodeEndpoint.as_view(), name="node"),
    path("v1/devices", devices.DevicesEndpoint.as_view(), name="devices"),
    path("v1/devices/<path:uuid>", devices.DeviceEndpoint.as_view(), name="device"),
    path("v1/holds", holds.HoldsEndpoint.as_view(), name="holds"),
    path("v1/holds/<int:hold_id>", holds.HoldEndpoint.as_view(), name="hold"),
    path("v1/pods", pods.PodsEndpoint.as_view(), name="pods"),
    path("v1/pods/<str:uid>", pods.PodEndpoint.as_view(), name="pod"),
    path("v1/pods/<str:uid>/explain", simulate.ExplainEndpoint.as_view(), name="pod-explain"),
    path("v1/pending", pods.PendingEndpoint.as_view(), name="pending"),
    path("v1/denied", pods.DeniedEndpoint.as_view(), name="denied"),
    path("v1/explain", simulate.ExplainNamedEndpoint.as_view(), name="explain"),
    path("v1/simulate", simulate.SimulateEndpoint.as_view(), name="simulate"),
    path("v1/namespaces", scopes.NamespacesEndpoint.as_view(), name="namespaces"),
    path("v1/namespaces/<str:name>", scopes.NamespaceEndpoint.as_view(), name="namespace"),
    path("v1/tenants", scopes.TenantsEndpoint.as_view(), name="tenants"),
    path("v1/tenants/<str:name>", scopes.TenantEndpoint.as_view(), name="tenant"),
    path("v1/quotas", quotas.QuotasEndpoint.as_view(), name="quotas"),
    path("v1/quotas/<int:quota_id>", quotas.QuotaEndpoint.as_view(), name="quota"),
    path("v1/budgets", budgets.BudgetsEndpoint.as_view(), name="budgets"),
    path("v1/budgets/<int:budget_id>", budgets.BudgetEndpoint.as_view(), name="budget"),
    path("v1/budgets/<int:budget_id>/burndown", budgets.BurnDownEndpoint.as_view(), name="budget-burndown"),
    path("v1/budgets/<int:budget_id>/holders", budgets.HoldersEndpoint.as_view(), name="budget-holders"),
    path("v1/measurements", measurements.MeasurementsEndpoint.as_view(), name="measurements"),
    path("v1/usage", usage.UsageEndpoint.as_view(), name="usage"),
    path("v1/waste", waste.WasteEndpoint.as_view(), name="waste"),
    path("v1/prices", usage.PricesEndpoint.as_view(), name="prices"),
    path("v1/prices/<int:price_id>", usage.PriceEndpoint.as_view(), name="price"),
    path("v1/traces", records.TracesEndpoint.as_view(), name="traces"),
    path("v1/traces/<int:trace_id>/replay", replays.ReplayEndpoint.as_view(), name="trace-replay"),
    path("v1/findings", records.FindingsEndpoint.as_view(), name="findings"),
    path("v1/journal", records.JournalEndpoint.as_view(), name="journal"),
    path("v1/changes", records.ChangesEndpoint.as_view(), name="changes"),
    path("v1/access", records.AccessEndpoint.as_view(), name="access"),
    path("v1/tokens", tokens.TokensEndpoint.as_view(), name="tokens"),
    path("v1/tokens/<str:key>", tokens.TokenEndpoint.as_view(), name="token"),
    path("schema", SpectacularAPIView.as_view(), name="schema"),
    path("docs", SpectacularSwaggerSplitView.as_view(url_name="api:schema"), name="docs"),
    re_path(r"^[\s\S]*\Z", base.NothingHere.as_view()),
]
