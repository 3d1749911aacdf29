"""`/filter` and `/bind`: parse, ask one service, spell the answer as kube-scheduler reads it.

The text of a refusal is constant while the refusal is the same in kind: kube-scheduler stores it in the pod, and a
changed text would wake the pod at once. HAMi's exact lists go to trace and event; strict mode puts them on the wire.
A fault is always `Error`, never an empty list, which kube-scheduler would read as "does not fit".
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from accounting import ledger
from accounting.services import cluster_api, device_config, placements, seen
from hami_platform import env, logs, metrics
from hami_platform.domain import place
from scheduler_ext import (
    binder,
    callers,
    edge,
    events,
    filter_events,
    hami_meters,
    node_queue,
    protocol,
    traces,
    versions,
)

_log = logs.get(__name__)
_filter_s = metrics.histogram(
    "hami_platform_filter_duration_seconds", "Time to answer /filter.", ("verdict",),
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 5),
)  # fmt: skip
_bind_s = metrics.histogram(
    "hami_platform_bind_duration_seconds", "Time to answer /bind, waiting for the node included.", ("verdict",),
    buckets=(0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 15, 30),
)  # fmt: skip
_refused = metrics.counter("hami_platform_filter_refusals_total", "Refused placements by dominant reason.", ("reason",))

RECORD_S = 2.0
"""How long the watcher has to record a pod that was bound here. In a burst it is a second behind, and what is recorded
here instead costs as much again, when there is least time."""

_versions = versions.Versions()
BIND_FAILED, BIND_SUCCEEDED = "BindingFailed", "BindingSucceed"


class FilterView(edge.MachineView):
    """Where a pod may go. kube-scheduler's `filterVerb`."""

    limit = protocol.FILTER_LIMIT

    def post(self, request: Request) -> Response:
        """200 and what went wrong in `Error`, but for callers that may not ask."""
        if (stranger := callers.refused(request)) is not None:
            return stranger
        began = time.monotonic()
        try:
            verdict, result = filter_pod(protocol.filter_args(self.body(request)))
        except protocol.BadBody as error:
            verdict, result = traces.ERROR, protocol.FilterResult(error=str(error))
        except ledger.LedgerUnavailable as error:
            verdict, result = traces.ERROR, protocol.FilterResult(error=f"the ledger is unavailable: {error}")
        _filter_s.labels(verdict).observe(time.monotonic() - began)
        return Response(result)


def filter_pod(args: protocol.FilterArgs) -> tuple[str, protocol.FilterResult]:
    """(verdict, answer). Raises BadBody, LedgerUnavailable."""
    nodes = args.nodes.by_name() if args.nodes is not None else None
    names = list(nodes) if nodes is not None else list(args.node_names or ())
    config = device_config.device_config()
    asked = seen.from_object(protocol.pod_json(args.pod, "Pod"), config)
    simulate = nodes is not None and env.current().node_cache_capable
    if asked.problem:
        return _unreadable(asked, simulate=simulate)
    if not asked.request.asks:
        return "echoed", _fitting(names, nodes, None)
    if not asked.uid:
        raise protocol.BadBody("Pod.metadata.uid is missing")
    if simulate:
        answer = placements.placement_simulate(seen=asked, candidates=names)
    else:
        answer = placements.placement_reserve(seen=asked, candidates=names, config=config)
    verdict = _verdict(answer)
    if answer.node and not simulate:
        _versions.note(asked.uid, asked.resource_version)
    if not simulate:
        _tell(asked, answer, verdict, names)
    return verdict, _spell(answer, names, nodes, simulate=simulate)


def _unreadable(asked: seen.PodSeen, *, simulate: bool) -> tuple[str, protocol.FilterResult]:
    """What the pod asks for cannot be read: nobody may place it, and its owner should hear why."""
    error = f"pod {asked.namespace}/{asked.name}: {asked.problem}"
    if not simulate:
        filter_events.tell_error(asked, error)
    return traces.ERROR, protocol.FilterResult(error=error)


def _verdict(answer: placements.FilterAnswer) -> str:
    if answer.error:
        return traces.ERROR
    return traces.PLACED if answer.node else traces.REFUSED


def _spell(
    answer: placements.FilterAnswer, names: list[str], nodes: Mapping[str, msgspec.Raw] | None, *, simulate: bool
) -> protocol.FilterResult:
    if answer.error:
        return protocol.FilterResult(error=answer.error)
    if not answer.node:
        return protocol.FilterResult(failed_nodes=_failed(answer, names))
    chosen = [answer.node]
    if simulate and answer.decision is not None:
        chosen = [name for name, _ in answer.decision.fitting]
    return _fitting(chosen, nodes, _others(answer, simulate=simulate))


def _fitting(
    names: list[str], nodes: Mapping[str, msgspec.Raw] | None, failed: Mapping[str, str] | None
) -> protocol.FilterResult:
    """In the form in which kube-scheduler asked."""
    if nodes is None:
        return protocol.FilterResult(node_names=names, failed_nodes=failed)
    return protocol.FilterResult(nodes=protocol.echoed([nodes[name] for name in names]), failed_nodes=failed)


def _failed(answer: placements.FilterAnswer, names: list[str]) -> Mapping[str, str]:
    if answer.decision is None or not env.current().strict_hami:
        return dict.fromkeys(names, answer.reason)
    return _texts(answer.decision.rejections)


def _others(answer: placements.FilterAnswer, *, simulate: bool) -> Mapping[str, str] | None:
    """Of a success: the nodes that were found not to fit, all under one word, since nobody stores it.

    HAMi names none, except to who simulates.
    """
    strict = env.current().strict_hami
    if answer.decision is None or not answer.decision.rejections or (strict and not simulate):
        return None
    rejections = answer.decision.rejections
    if strict:
        return _texts(rejections)
    word = rejections[next(iter(rejections))].dominant().value
    return dict.fromkeys(rejections, word)


def _texts(rejections: place.Rejections) -> Mapping[str, str]:
    """HAMi's list for each node."""
    return {name: rejection.text() for name, rejection in rejections.items()}


def _tell(asked: seen.PodSeen, answer: placements.FilterAnswer, verdict: str, names: list[str]) -> None:
    """Log, trace, count and event of one decision; nothing here waits."""
    _log.info(
        "filter", verdict=verdict, uid=asked.uid, namespace=asked.namespace, pod=asked.name, node=answer.node,
        reason=answer.reason if verdict == traces.REFUSED else answer.error,
    )  # fmt: skip
    reason = answer.reason if verdict == traces.REFUSED else ""
    summary = answer.error or answer.quota
    traces.keep(
        traces.Decided(
            asked.uid, asked.namespace, asked.name, verdict, reason=reason, summary=summary,
            revision=answer.revision, decision=answer.decision, chosen=answer.chosen, basis=answer.basis,
        )
    )  # fmt: skip
    if verdict == traces.REFUSED:
        _refused.labels(reason or "none").inc()
    if verdict == traces.PLACED:
        hami_meters.placed(asked.request.vendors)
    else:
        hami_meters.not_placed(asked.request.vendors, fault=verdict == traces.ERROR)
    filter_events.tell(asked, answer, len(names))


class BindView(edge.MachineView):
    """Puts a pod on its node. kube-scheduler's `bindVerb`."""

    limit = protocol.BIND_LIMIT

    def post(self, request: Request) -> Response:
        """200, and the pod is bound where `Error` is empty; but for callers that may not ask."""
        if (stranger := callers.refused(request)) is not None:
            return stranger
        began = time.monotonic()
        try:
            args = protocol.bind_args(self.body(request))
        except protocol.BadBody as error:
            return Response(protocol.BindResult(error=str(error)))
        error_text = the_binder().bind(args)
        verdict = traces.ERROR if error_text else "bound"
        _bind_s.labels(verdict).observe(time.monotonic() - began)
        _log.info(
            "bind", verdict=verdict, uid=args.pod_uid, namespace=args.pod_namespace, pod=args.pod_name,
            node=args.node, error=error_text,
        )  # fmt: skip
        if error_text:
            hami_meters.not_bound(args.pod_uid, error_text)
        events.tell(_bind_event(args, error_text))
        return Response(protocol.BindResult(error=error_text))


def _bind_event(args: protocol.BindArgs, error: str) -> events.PodEvent:
    where = f"{args.pod_namespace}/{args.pod_name}"
    reason, text, type_ = BIND_SUCCEEDED, f"Successfully binding node [{args.node}] to {where}", events.NORMAL
    if error:
        reason, text, type_ = BIND_FAILED, error, events.WARNING
    return events.PodEvent(args.pod_namespace, args.pod_name, args.pod_uid, reason, text, type_)


@functools.cache
def the_binder() -> binder.Binder:
    """This process's binder. Half of the threads stay for everything else."""
    queue: node_queue.NodeQueue[str] = node_queue.NodeQueue(max(1, env.current().listener_threads // 2))
    return binder.Binder(
        cluster_api.cluster_api(), device_config.device_config(), queue, versions=_versions, record_after_s=RECORD_S
    )
