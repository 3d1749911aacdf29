"""Whether labels may travel in a Binding, which spares a patch of the pod. Must not know: which labels."""

from __future__ import annotations

from hami_platform import logs
from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors

_log = logs.get(__name__)


class Labels:
    """Whether this API server takes labels from a Binding (from 1.35, or where the feature is on).

    Asked once by version; then one bound pod is looked at, since the feature can be switched off.
    """

    SINCE = (1, 35)

    def __init__(self, api: ports.Api) -> None:
        self._api = api
        self._works: bool | None = None
        self._checked = False

    def travel_in_binding(self) -> bool:
        """Put labels into the Binding; else patch the pod first. Raises errors.KubeError."""
        if self._works is None:
            self._works = self._api.send(calls.version_get()).at_least(self.SINCE)
        return self._works

    def check(self, namespace: str, name: str, label: dict[str, str]) -> None:
        """Look at the first pod bound with labels; where they are missing, patch it and do so from then on."""
        if self._checked:
            return
        self._checked = True
        try:
            pod = self._api.send(calls.pod_get(namespace=namespace, name=name))
            if label.items() <= pod.metadata.labels.items():
                return
            self._works = False
            self._api.send(calls.pod_annotate(namespace=namespace, name=name, annotations={}, labels=label))
        except errors.KubeError as error:
            self._checked = False
            _log.warning("label_unchecked", namespace=namespace, name=name, error=str(error))
