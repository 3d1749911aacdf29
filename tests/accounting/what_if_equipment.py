"""What tests of explanations and simulations share: a full node, a limit, a manifest, a script's client."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from rest_framework.test import APIClient

from accounting import models
from accounting.services import quotas, tokens
from hami_platform.domain.quota import Limits
from tests.accounting import rows
from tests.accounting.rows import Given

WHY: dict[str, Any] = {"reason": "set up", "actor": "root"}
MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: nlp}
spec:
  template:
    spec:
      containers:
      - name: main
        image: any
        resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4000}}
"""


def client_of(user: models.User, scopes: list[str] | None = None) -> APIClient:
    """A script with a token of this user."""
    _, text = tokens.token_create(user=user.username, bounds=tokens.Bounds(tuple(scopes or ())))
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def url(name: str, *args: object) -> str:
    """An address of the API."""
    return reverse(f"api:{name}", args=args)


def full() -> None:
    """One node with one device, of which cv/user holds most; nlp/train waits, limited to 10,000 MiB."""
    rows.node(count=1)
    rows.pod("user", namespace="cv", shares=[Given(memory_mib=20000, core_percent=50)])
    rows.pod("train", state="waiting", shares=(), asks=rows.requests.DeviceRequest("NVIDIA", 1, 8000, None, 20))
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=10000), **WHY)
