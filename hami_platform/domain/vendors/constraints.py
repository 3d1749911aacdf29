"""Where a pod allows itself to be placed: its annotations as Constraints. Must not know: any one vendor.

Source of keys and meanings: HAMi v2.10.0; an unknown policy is ignored, as since its #2769.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hami_platform.domain import errors, requests
from hami_platform.domain.vendors import base
from hami_platform.domain.wire import fields, weights

NODE_POLICY = "hami.io/node-scheduler-policy"
DEVICE_POLICY = "hami.io/gpu-scheduler-policy"

Entries = tuple[str, ...] | None

_NODE_POLICIES = frozenset(("binpack", "spread"))
_DEVICE_POLICIES = frozenset(("binpack", "spread", "numa", "mutex", "topology-aware"))


def read(notes: Mapping[str, str], vendors: Sequence[base.Vendor]) -> requests.Constraints:
    """The constraints of a pod that asks for these vendors, each one's for its own devices only.

    Raises RequestError naming the key.
    """
    common = requests.Constraints(
        node_policy=_policy(notes.get(NODE_POLICY), _NODE_POLICIES),
        device_policy=_policy(notes.get(DEVICE_POLICY), _DEVICE_POLICIES),
        weights=_weights(notes.get(weights.KEY)),
    )
    own = {vendor.word: _own(common, notes, vendor.selection) for vendor in vendors}
    if len(own) == 1:
        return next(iter(own.values()))
    return replace(common, by_vendor=tuple(sorted(own.items(), key=lambda item: item[0])))


def _own(common: requests.Constraints, notes: Mapping[str, str], keys: base.Selection) -> requests.Constraints:
    return replace(
        common,
        use_models=_list(notes, keys.use_models),
        nouse_models=_list(notes, keys.nouse_models),
        use_uuids=_both(_list(notes, keys.use_uuids), _list(notes, keys.use_uuids_too)),
        nouse_uuids=_either(_list(notes, keys.nouse_uuids), _list(notes, keys.nouse_uuids_too)),
        numa_bind=bool(fields.boolean(notes.get(keys.numa_bind))),
        # An empty text counts too: a mode that no device has, as in HAMi.
        vgpu_mode=notes[keys.mode].strip() if keys.mode in notes else None,
        notes=tuple((key, notes[key]) for key in sorted(keys.notes) if key in notes),
    )


def _policy(text: str | None, known: frozenset[str]) -> str | None:
    """The chain of words, blanks removed; None (the cluster's default) unless a word of it is known."""
    words = [word.strip() for word in (text or "").split(",")]
    return ",".join(words) if known.intersection(words) else None


def _list(notes: Mapping[str, str], key: str) -> Entries:
    """Trimmed entries; None for a list that is absent or blank. Only commas: an empty list, which is not None."""
    text = notes.get(key, "")
    return tuple(entry.strip() for entry in text.split(",") if entry.strip()) if text.strip() else None


def _both(a: Entries, b: Entries) -> Entries:
    return tuple(one for one in a if one in b) if a is not None and b is not None else a if b is None else b


def _either(a: Entries, b: Entries) -> Entries:
    return a + b if a is not None and b is not None else a if b is None else b


def _weights(text: str | None) -> requests.Weights:
    if text is None:
        return requests.Weights()
    try:
        return weights.decode(text)
    except errors.WireError as error:
        raise errors.RequestError(f"annotation {weights.KEY}: {error}", key=weights.KEY) from error
