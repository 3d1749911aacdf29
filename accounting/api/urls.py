"""Addresses of the REST API. `/api/v1/` is stable; the schema is at `/api/schema`."""

from __future__ import annotations

from django.urls import path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from accounting.api import agent, agent_findings, base, measurements, quotas, reads, simulate

app_name = "api"

urlpatterns = [
    path("agent/allocations", agent.AllocationsEndpoint.as_view(), name="allocations"),
    path("agent/findings", agent_findings.AgentFindingsEndpoint.as_view(), name="agent-findings"),
    path("agent/unmanaged", agent.UnmanagedEndpoint.as_view(), name="unmanaged"),
    path("v1/cluster", reads.ClusterEndpoint.as_view(), name="cluster"),
    path("v1/nodes", reads.NodesEndpoint.as_view(), name="nodes"),
    path("v1/nodes/<str:name>", reads.NodeEndpoint.as_view(), name="node"),
    path("v1/devices", reads.DevicesEndpoint.as_view(), name="devices"),
    path("v1/devices/<str:uuid>", reads.DeviceEndpoint.as_view(), name="device"),
    path("v1/pods", reads.PodsEndpoint.as_view(), name="pods"),
    path("v1/pods/<str:uid>", reads.PodEndpoint.as_view(), name="pod"),
    path("v1/pods/<str:uid>/explain", simulate.ExplainEndpoint.as_view(), name="pod-explain"),
    path("v1/simulate", simulate.SimulateEndpoint.as_view(), name="simulate"),
    path("v1/namespaces", reads.NamespacesEndpoint.as_view(), name="namespaces"),
    path("v1/tenants", reads.TenantsEndpoint.as_view(), name="tenants"),
    path("v1/quotas", quotas.QuotasEndpoint.as_view(), name="quotas"),
    path("v1/quotas/<int:quota_id>", quotas.QuotaEndpoint.as_view(), name="quota"),
    path("v1/measurements", measurements.MeasurementsEndpoint.as_view(), name="measurements"),
    path("v1/findings", reads.FindingsEndpoint.as_view(), name="findings"),
    path("v1/journal", reads.JournalEndpoint.as_view(), name="journal"),
    path("schema", SpectacularAPIView.as_view(), name="schema"),
    path("docs", SpectacularSwaggerSplitView.as_view(url_name="api:schema"), name="docs"),
    path("<path:rest>", base.NothingHere.as_view()),
]
