"""`/refit`: a node's device plugin asks for other devices for one container, those that its kubelet can give it.

The ledger holds old and new devices while the annotations are patched on the resourceVersion that was read; what the
patch came to decides which of them stay. Every failure is told in the answer, with status 200; only who may not ask
gets another status. Must not know: how devices are chosen.
Source: HAMi's NumaRefitRequest and NumaRefitResponse (newer than v2.10.0).
"""

from __future__ import annotations

import functools
import hmac
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from rest_framework import status
from rest_framework.authentication import get_authorization_header
from rest_framework.request import Request
from rest_framework.response import Response

from accounting import ledger
from accounting.services import cluster_api, device_config, observe, refits, seen
from hami_platform import env, logs, metrics
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors, objects
from scheduler_ext import binder, callers, edge, events, protocol, subject

_log = logs.get(__name__)
_refits = metrics.counter("hami_platform_refits_total", "Answers to /refit.", ("verdict",))

SUCCEEDED, FAILED = "NumaRefitSucceed", "NumaRefitFailed"
ALLOWED_MOST = 512
TRIES = 3  # each conflict may be somebody's harmless patch
CALL_S = 1.0  # the plugin waits two seconds in all


class RefitArgs(msgspec.Struct, frozen=True):
    """`/refit` as it comes in; everything but the container's name is required."""

    pod_uid: str = msgspec.field(name="podUID", default="")
    pod_namespace: str = msgspec.field(name="podNamespace", default="")
    pod_name: str = msgspec.field(name="podName", default="")
    node: str = msgspec.field(name="nodeName", default="")
    container_index: int = msgspec.field(name="containerIndex", default=0)
    container_name: str = msgspec.field(name="containerName", default="")
    vendor: str = msgspec.field(name="deviceType", default="")
    allowed: tuple[str, ...] = msgspec.field(name="allowedDeviceUUIDs", default=())


class RefitAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the container has now, `uuid,NVIDIA,MiB,cores:` for each device, or why not."""

    succeeded: bool
    container_devices: str = msgspec.field(name="containerDevices", default="")
    failure_reason: str = msgspec.field(name="failureReason", default="")


class RefitView(edge.MachineView):
    """For device plugins: a bearer token says who asks."""

    limit = 256 << 10

    def post(self, request: Request) -> Response:
        """200 whatever came of it; 401 for nobody's token, 503 while tokens cannot be checked."""
        try:
            if not may_ask(get_authorization_header(request)):
                answer = Response(
                    {"error": "a bearer token of a device plugin is needed"}, status.HTTP_401_UNAUTHORIZED
                )
                answer["WWW-Authenticate"] = "Bearer"
                return answer
        except errors.KubeError as error:
            _log.warning("refit_token_unchecked", error=str(error))
            return Response({"error": "the token cannot be checked now"}, status.HTTP_503_SERVICE_UNAVAILABLE)
        return Response(refit(functools.partial(self.body, request)))


def may_ask(authorization: bytes) -> bool:
    """Whether the token is the installation's own, or by TokenReview that of somebody who may write owned keys (HAMi's
    plugin). Raises errors.KubeError."""
    kind, _, sent = authorization.partition(b" ")
    token = sent.strip()
    if kind.lower() != b"bearer" or not token:
        return False
    own = env.current().internal_token.encode()
    if own and hmac.compare_digest(token, own):
        return True
    return not set(subject.writers()).isdisjoint(callers.names.of(token))


def refit(read: Callable[[], bytes]) -> RefitAnswer:
    """The answer to one request; faults are in it."""
    try:
        ask = _ask(read())
    except protocol.BadBody as error:
        return _answered(None, RefitAnswer(False, failure_reason=str(error)))
    try:
        return _answered(ask, the_refitter().refit(ask))
    except ledger.LedgerUnavailable as error:
        return _answered(ask, RefitAnswer(False, failure_reason=f"the ledger is unavailable: {error}"))
    except errors.KubeError as error:
        text = f"the API server cannot be asked about the pod: {error}"
        return _answered(ask, RefitAnswer(False, failure_reason=text))


def _ask(body: bytes) -> refits.RefitAsk:
    """Raises BadBody, naming the field."""
    try:
        args = objects.decode(body, RefitArgs)
    except objects.Undecodable as error:
        raise protocol.BadBody(str(error)) from error
    needed = {"podUID": args.pod_uid, "podNamespace": args.pod_namespace, "podName": args.pod_name}
    needed |= {"nodeName": args.node, "deviceType": args.vendor}
    missing = [key for key, value in needed.items() if not value]
    if missing:
        raise protocol.BadBody(f"refit request missing {', '.join(missing)}")
    if not 0 < len(args.allowed) <= ALLOWED_MOST:
        raise protocol.BadBody(f"allowedDeviceUUIDs must have 1 to {ALLOWED_MOST} entries, it has {len(args.allowed)}")
    return refits.RefitAsk(
        args.pod_uid, args.pod_namespace, args.pod_name, args.node, args.container_index, frozenset(args.allowed),
        args.container_name, args.vendor,
    )  # fmt: skip


class Refitter:
    """Moves containers; one for a process. `refit` may be called by many threads."""

    def __init__(self, api: ports.Api, config: DeviceConfig) -> None:
        self._api, self._config = api, config

    def refit(self, ask: refits.RefitAsk) -> RefitAnswer:
        """Raises errors.KubeError where nothing was begun, ledger.LedgerUnavailable."""
        why = ""
        for _ in range(TRIES):
            found = self._look(ask)
            if isinstance(found, str):
                return RefitAnswer(False, failure_reason=found)
            pod, one = found
            begun = refits.refit_begin(ask=ask, seen=one, config=self._config)
            if isinstance(begun, refits.RefitRefused):
                return RefitAnswer(False, failure_reason=begun.message)
            if isinstance(begun, refits.RefitUnchanged):
                return RefitAnswer(True, begun.row)
            try:
                self._write(ask, begun, pod)
                return self._moved(ask, begun)
            except errors.Conflict as error:
                why = str(error)
                self._settle(ask, begun, pod)  # the patch was refused: this row is as it was read
            except errors.Ambiguous as error:
                return self._doubtful(ask, begun, str(error))
            except errors.KubeError as error:
                self._settle(ask, begun, pod)
                return RefitAnswer(False, failure_reason=f"the annotations cannot be written: {error}")
        return RefitAnswer(False, failure_reason=f"the pod kept changing: {why}")

    def _look(self, ask: refits.RefitAsk) -> tuple[Mapping[str, Any], seen.PodSeen] | str:
        """The pod as it is now, with the ledger settled about it; a text when there is none to move."""
        binder.rest()
        try:
            pod = self._api.send(calls.pod_get(namespace=ask.namespace, name=ask.name).whole(), timeout_s=CALL_S)
        except errors.NotFound:
            return f"pod {ask.namespace}/{ask.name} not found"
        one = seen.from_object(pod, self._config)
        if one.uid != ask.uid:
            return f"pod {ask.namespace}/{ask.name} has another uid, {one.uid}"
        observe.pods_observe([one], config=self._config)  # it may have been bound a moment ago
        return pod, one

    def _write(self, ask: refits.RefitAsk, plan: refits.RefitPlan, pod: Mapping[str, Any]) -> None:
        binder.rest()
        self._api.send(
            calls.pod_annotate(
                namespace=ask.namespace, name=ask.name, annotations=plan.annotations, uid=ask.uid,
                resource_version=str(pod["metadata"]["resourceVersion"]),
            ),
            timeout_s=CALL_S,
        )  # fmt: skip

    def _moved(self, ask: refits.RefitAsk, plan: refits.RefitPlan) -> RefitAnswer:
        """Written. What the ledger cannot let go of now, it lets go of at the next pass."""
        try:
            refits.refit_settle(uid=ask.uid, annotations=plan.annotations, config=self._config, at=plan.at)
        except ledger.LedgerUnavailable as error:
            _log.warning("refit_unsettled", uid=ask.uid, error=str(error))
        where = f"from [{','.join(plan.before)}] to [{','.join(plan.after)}]"
        _tell(ask, SUCCEEDED, f"NUMA refit moved container {ask.container_index} {where}", events.NORMAL)
        return RefitAnswer(True, plan.row)

    def _settle(self, ask: refits.RefitAsk, plan: refits.RefitPlan, pod: Mapping[str, Any]) -> None:
        notes = pod["metadata"].get("annotations") or {}
        refits.refit_settle(uid=ask.uid, annotations=notes, config=self._config, at=plan.at)

    def _doubtful(self, ask: refits.RefitAsk, plan: refits.RefitPlan, why: str) -> RefitAnswer:
        """The annotations may have been written, or may still be: make sure, or keep both sides until somebody can."""
        _log.warning("refit_doubtful", uid=ask.uid, node=ask.node, error=why)
        try:
            has = refits.refit_doubt(
                self._api, uid=ask.uid, namespace=ask.namespace, name=ask.name, config=self._config
            )
        except errors.KubeError as error:
            return RefitAnswer(False, failure_reason=f"whether the annotations were written is unknown: {error}")
        if has == plan.after:
            return self._moved(ask, plan)
        return RefitAnswer(False, failure_reason=f"the annotations were not written: {why}")


def _answered(ask: refits.RefitAsk | None, answer: RefitAnswer) -> RefitAnswer:
    """Count, log and tell a failure."""
    _refits.labels("succeeded" if answer.succeeded else "failed").inc()
    _log.info(
        "refit", succeeded=answer.succeeded, uid=ask.uid if ask else "", node=ask.node if ask else "",
        devices=answer.container_devices, reason=answer.failure_reason,
    )  # fmt: skip
    if ask is not None and not answer.succeeded:
        text = f"NUMA refit of container {ask.container_index} failed: {answer.failure_reason}"
        _tell(ask, FAILED, text, events.WARNING)
    return answer


def _tell(ask: refits.RefitAsk, reason: str, message: str, type_: str) -> None:
    events.tell(events.PodEvent(ask.namespace, ask.name, ask.uid, reason, message, type_))


@functools.cache
def the_refitter() -> Refitter:
    """This process's refitter."""
    return Refitter(cluster_api.cluster_api(), device_config.device_config())
