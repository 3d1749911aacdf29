"""The effect of a simulated change as plain data, the same for page, REST and command line, within a reader's reach.

Must not know: how anything was decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from accounting.selectors import holders, pods
from accounting.selectors.explained import Reader
from hami_platform.domain import headlines, simulate
from hami_platform.domain.rows import PodRow

Data = dict[str, Any]
SHOWN = 100


def of_effect(reader: Reader, found: simulate.Effect) -> Data:
    """What would start, strand, move or find no place. `hidden` counts pods that the reader may not see."""
    parts = {
        "starts": [_placed(one) for one in _seen(reader, found.starts)],
        "strands": [_stranded(reader, one) for one in _seen(reader, found.strands)],
        "moves": [_placed(one) for one in _seen(reader, found.moves)],
        "homeless": [_stranded(reader, one) for one in _seen(reader, found.homeless)],
    }
    concerned = [one.pod for one in (*found.starts, *found.moves)]
    concerned += [one.pod for one in (*found.strands, *found.homeless)]
    hidden = sum(not reader.reach.sees(row.namespace) for row in concerned)
    counts = {
        f"{name}_count": len(some)
        for name, some in (
            ("starts", found.starts), ("strands", found.strands), ("moves", found.moves), ("homeless", found.homeless)
        )
    }  # fmt: skip
    over = [
        {"rule": one.rule, "resource": one.resource, "limit": one.limit, "used": one.used, "over": one.over}
        for one in found.over
        if _shows(reader, one.rule)
    ]
    return parts | counts | {
        "over": over, "hidden": hidden, "waiting": found.waiting, "tried": found.tried, "revision": found.revision,
    }  # fmt: skip


def _seen(reader: Reader, found: Iterable[Any]) -> list[Any]:
    return [one for one in found if reader.reach.sees(one.pod.namespace)][:SHOWN]


def _shows(reader: Reader, rule: str) -> bool:
    """Whether the reader may see this limit: of a namespace or a tenant of hers."""
    scope = rule.partition("/")[0]
    tenants = {row.name for row in reader.view.tenants.values() if reader.reach.sees_tenant(row.id)}
    return reader.reach.sees(scope) or scope in tenants


def _pod(row: PodRow) -> Data:
    return {
        "uid": row.uid, "key": holders.pod_key(row), "namespace": row.namespace, "name": row.name,
        "asks": pods.request_text(row.request),
    }  # fmt: skip


def _placed(one: simulate.Placed) -> Data:
    devices = list(dict.fromkeys(share.uuid for share in one.placement.shares))
    return _pod(one.pod) | {"node": one.placement.node, "devices": devices}


def _stranded(reader: Reader, one: simulate.Stranded) -> Data:
    why = reader.tell(headlines.of_limit(one.excess)) if one.excess is not None else one.reasons
    return _pod(one.pod) | {"why": why}
