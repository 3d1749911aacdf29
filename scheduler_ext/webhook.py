"""`/webhook`: judges pods that are created or changed, and claims quota for those that ask for devices.

A pod without devices is answered without any query. When the ledger cannot answer, a pod with devices is denied with
the reason: admitting it unclaimed would let a burst exceed every quota. Must not know: how requests are parsed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from accounting import ledger, live_view
from accounting.models import PodState
from accounting.services import claims, device_config, seen
from hami_platform import env, logs, metrics
from hami_platform.domain import admission, narrowing
from hami_platform.domain.view import View
from scheduler_ext import admission_traces, denied_asks, edge, protocol, subject, webhook_config

_log = logs.get(__name__)
_webhook_s = metrics.histogram(
    "hami_platform_webhook_duration_seconds", "Time to answer /webhook.", ("verdict",),
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 5),
)  # fmt: skip

UNAVAILABLE = 503
Pod = dict[str, Any]


class WebhookView(edge.MachineView):
    """Admission of pods. The API server's `clientConfig` points here."""

    limit = protocol.REVIEW_LIMIT

    def post(self, request: Request) -> Response:
        """Always 200; a review that cannot be read is denied in band with code 400."""
        began = time.monotonic()
        asked: protocol.AdmissionReview | None = None
        try:
            asked = protocol.review(self.body(request))
            answer = admit(asked)
        except protocol.BadBody as error:  # the API server believes no answer without the review's uid
            answer = protocol.deny(asked, message=str(error), code=400)
        verdict = "allowed" if answer.response.allowed else "denied"
        _webhook_s.labels(verdict).observe(time.monotonic() - began)
        return Response(answer)


def admit(asked: protocol.AdmissionReview) -> protocol.AdmissionAnswer:
    """The answer to one review. Raises BadBody where pod or old pod cannot be read."""
    request = asked.request
    if request.kind.kind != "Pod" or request.sub_resource or not protocol.given(request.object):
        return protocol.allow(asked)
    pod = protocol.pod_json(request.object, "request.object")
    if _opted_out(pod):
        return protocol.allow(asked)
    if request.operation == "UPDATE":
        return _update(asked, pod)
    if request.operation != "CREATE":
        return protocol.allow(asked)
    try:
        return _create(asked, pod)
    except ledger.LedgerUnavailable as error:
        return _deny(asked, pod, f"GPU quota cannot be checked now: {error}", UNAVAILABLE)


def _opted_out(pod: Pod) -> bool:
    if not env.current().pod_webhook_ignore_label:
        return False
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(webhook_config.IGNORE_LABEL) == "ignore")


def _update(asked: protocol.AdmissionReview, pod: Pod) -> protocol.AdmissionAnswer:
    """Touches no database: only whether an owned key changes, and by whom."""
    request = asked.request
    old = protocol.pod_json(request.old_object, "request.oldObject") if protocol.given(request.old_object) else {}
    verdict = admission.update_review(
        old, pod, user=request.user_info.username, groups=request.user_info.groups, writers=subject.writers(),
        config=device_config.device_config(),
    )  # fmt: skip
    if isinstance(verdict, admission.Denied):
        return _deny_text(asked, pod, verdict)
    return protocol.allow(asked)


def _create(asked: protocol.AdmissionReview, pod: Pod) -> protocol.AdmissionAnswer:
    presented = _presented(asked, pod)
    verdict = admission.review(
        pod, config=device_config.device_config(), settings=subject.admission_settings(), accepted_claim=presented
    )
    if isinstance(verdict, admission.Denied):
        return _deny_text(asked, pod, verdict)
    if isinstance(verdict, admission.Allowed):
        return protocol.allow(asked, warnings=verdict.warnings)
    view = live_view.live().refresh()
    if not view.ready:
        return _deny(asked, pod, "GPU quota is not ready: the cluster is still being read", UNAVAILABLE)
    answer = claims.claim_take(_ask(asked, pod, verdict, presented), dry_run=asked.request.dry_run)
    _trace(asked, pod, answer)
    if not answer.granted:
        if not asked.request.dry_run:
            denied_asks.keep(asked.request.namespace, _owner(asked, pod), answer.message)
        return _deny(asked, pod, answer.message, admission.FORBIDDEN)
    claim = "" if asked.request.dry_run else answer.claim_id
    narrowed = admission.narrowing_patch(pod, verdict.request, _narrowed(view), device_config.device_config())
    patch = (*verdict.patch, *narrowed, *_claim_patch(verdict.annotated(pod), claim, gated=answer.gated))
    _tell(asked, pod, "gated" if answer.gated else "admitted", "")
    return protocol.allow(asked, patch=patch, warnings=(*verdict.warnings, *answer.warnings))


class _Narrowed:
    """Vendors to whose labelled nodes pods may be bound; worked out again only when a node has changed."""

    def __init__(self) -> None:
        self._of: tuple[object, frozenset[str]] = (None, frozenset())

    def __call__(self, view: View) -> frozenset[str]:
        settings = env.current()
        if not settings.narrowing or settings.strict_hami:
            return frozenset()
        nodes, vendors = self._of
        if nodes is not view.nodes:
            vendors = narrowing.vendors(view.nodes.values())
            self._of = (view.nodes, vendors)
        return vendors


_narrowed = _Narrowed()


def _presented(asked: protocol.AdmissionReview, pod: Pod) -> str:
    """The claim that the pod carries, if the ledger has it unmatched for this namespace; else "" (it is forged)."""
    metadata = pod.get("metadata") or {}
    carried = (metadata.get("annotations") or {}).get(admission.CLAIM)
    if not carried:
        return ""
    for row in live_view.live().refresh().pods.values():
        unmatched = row.claim_id == carried and not row.uid and row.state == PodState.CLAIMED
        if unmatched and row.namespace == asked.request.namespace:
            return str(carried)
    return ""


def _ask(asked: protocol.AdmissionReview, pod: Pod, verdict: admission.Mutated, presented: str) -> claims.ClaimAsk:
    return claims.ClaimAsk(
        claim_id=asked.request.uid, namespace=_namespace(asked, pod), request=verdict.request,
        name=_name(asked, pod), owner=seen.owner_of(pod.get("metadata") or {}), presented=presented,
        priority=(pod.get("spec") or {}).get("priority") or 0,
    )  # fmt: skip


def _claim_patch(pod: Pod, claim_id: str, *, gated: bool) -> tuple[Mapping[str, Any], ...]:
    """A gated pod has no claim yet: it gets the gate alone."""
    return tuple(
        operation
        for operation in admission.claim_patch(pod, claim_id, gated=gated)
        if claim_id or not operation["path"].startswith("/metadata/")
    )


def _namespace(asked: protocol.AdmissionReview, pod: Pod) -> str:
    return asked.request.namespace or (pod.get("metadata") or {}).get("namespace") or "default"


def _name(asked: protocol.AdmissionReview, pod: Pod) -> str:
    """Empty with generateName: the name is made after admission."""
    return asked.request.name or (pod.get("metadata") or {}).get("name") or ""


def _owner(asked: protocol.AdmissionReview, pod: Pod) -> str:
    """By whom a denied ask is kept: the controller, else the pod's own name."""
    metadata = pod.get("metadata") or {}
    return seen.owner_of(metadata) or f"Pod/{_name(asked, pod) or metadata.get('generateName', '')}"


def _deny_text(asked: protocol.AdmissionReview, pod: Pod, verdict: admission.Denied) -> protocol.AdmissionAnswer:
    """A pod that may not be as it is, whatever is free."""
    if not asked.request.dry_run:
        admission_traces.keep_text(_asker(asked, pod), verdict.message)
    return _deny(asked, pod, verdict.message, verdict.code)


def _trace(asked: protocol.AdmissionReview, pod: Pod, answer: claims.ClaimAnswer) -> None:
    if not asked.request.dry_run:
        admission_traces.keep(_asker(asked, pod), answer)


def _asker(asked: protocol.AdmissionReview, pod: Pod) -> admission_traces.Asker:
    name = _name(asked, pod) or (pod.get("metadata") or {}).get("generateName", "")
    return admission_traces.Asker(asked.request.uid, _namespace(asked, pod), name, _owner(asked, pod))


def _deny(asked: protocol.AdmissionReview, pod: Pod, message: str, code: int) -> protocol.AdmissionAnswer:
    _tell(asked, pod, "denied", message)
    return protocol.deny(asked, message=message, code=code)


def _tell(asked: protocol.AdmissionReview, pod: Pod, verdict: str, message: str) -> None:
    _log.info(
        "admission", verdict=verdict, operation=asked.request.operation, namespace=_namespace(asked, pod),
        pod=_name(asked, pod), owner=_owner(asked, pod), claim=asked.request.uid, reason=message,
        user=asked.request.user_info.username, dry_run=asked.request.dry_run,
    )  # fmt: skip
