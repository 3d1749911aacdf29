"""Decisions of admission, kept beside those of `/filter`. Must not know: how a pod is judged."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from accounting.services import claims
from hami_platform.domain.reasons import Reason
from scheduler_ext import traces

NAME_MAX = 253


@dataclass(frozen=True, slots=True)
class Asker:
    """Whose pod it is. claim: the review's uid. owner: the controller, or the pod by its name."""

    claim: str
    namespace: str
    name: str
    owner: str

    @property
    def repeats(self) -> str:
        """The same for all pods of one owner: a denied pod does not exist, and its controller tries again."""
        whole = f"{self.namespace}/{self.owner}".encode()
        return f"denied-{hashlib.blake2b(whole, digest_size=16).hexdigest()}"


def keep(asker: Asker, answer: claims.ClaimAnswer) -> None:
    """What the limits said. A repeated question, which gets the stored answer, leaves nothing."""
    if answer.basis is None:
        return
    verdict = traces.DENIED if not answer.granted else traces.GATED if answer.gated else traces.ADMITTED
    stopped = answer.gated or not answer.granted
    traces.keep(
        traces.Decided(
            asker.claim if answer.granted else asker.repeats, asker.namespace, asker.name[:NAME_MAX], verdict,
            reason=Reason.RESOURCE_QUOTA_NOT_FIT.value if stopped else "", summary=claims.told(answer),
            revision=answer.revision, basis=answer.basis,
        )
    )  # fmt: skip


def keep_text(asker: Asker, message: str) -> None:
    """A pod that was denied for what it says."""
    traces.keep(
        traces.Decided(
            asker.repeats, asker.namespace, asker.name[:NAME_MAX], traces.DENIED, summary=message, by_text=True
        )
    )  # fmt: skip
