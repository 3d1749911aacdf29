"""Where a pod allows itself to be placed: its annotations as Constraints. Must not know: any one vendor.

Source of keys and meanings: HAMi v2.10.0; an unknown policy is ignored, as since its #2769.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hami_platform.domain import errors, requests
from hami_platform.domain.vendors import base
from hami_platform.domain.wire import fields, weights

NODE_POLICY = "hami.io/node-scheduler-policy"
DEVICE_POLICY = "hami.io/gpu-scheduler-policy"

_NODE_POLICIES = frozenset(("binpack", "spread"))
_DEVICE_POLICIES = frozenset(("binpack", "spread", "numa", "mutex", "topology-aware"))


def read(notes: Mapping[str, str], selections: Sequence[base.Selection]) -> requests.Constraints:
    """The constraints. selections: those of the vendors that the pod asks for. Raises RequestError naming the key."""
    return requests.Constraints(
        node_policy=_policy(notes.get(NODE_POLICY), _NODE_POLICIES),
        device_policy=_policy(notes.get(DEVICE_POLICY), _DEVICE_POLICIES),
        use_models=_list(notes, [one.use_models for one in selections]),
        nouse_models=_list(notes, [one.nouse_models for one in selections]),
        use_uuids=_list(notes, [one.use_uuids for one in selections]),
        nouse_uuids=_list(notes, [one.nouse_uuids for one in selections]),
        numa_bind=any(fields.boolean(notes.get(one.numa_bind)) for one in selections),
        vgpu_mode=_first(notes, [one.mode for one in selections]),
        weights=_weights(notes.get(weights.KEY)),
    )


def _policy(text: str | None, known: frozenset[str]) -> str | None:
    """The chain of words, blanks removed; None (the cluster's default) unless a word of it is known."""
    words = [word.strip() for word in (text or "").split(",")]
    return ",".join(words) if known.intersection(words) else None


def _list(notes: Mapping[str, str], keys: Sequence[str]) -> tuple[str, ...] | None:
    """Trimmed entries; None for a list that is absent or blank. Only commas: an empty list, which is not None."""
    texts = [notes[key] for key in keys if notes.get(key, "").strip()]
    if not texts:
        return None
    return tuple(entry.strip() for text in texts for entry in text.split(",") if entry.strip())


def _first(notes: Mapping[str, str], keys: Sequence[str]) -> str | None:
    """The text of the first key that is there, an empty one too: a mode that no device has, as in HAMi."""
    return next((notes[key].strip() for key in keys if key in notes), None)


def _weights(text: str | None) -> requests.Weights:
    if text is None:
        return requests.Weights()
    try:
        return weights.decode(text)
    except errors.WireError as error:
        raise errors.RequestError(f"annotation {weights.KEY}: {error}", key=weights.KEY) from error
