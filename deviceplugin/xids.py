"""Which of NVIDIA's XID errors make a card unhealthy.

Some XIDs are an application's fault and say nothing about the card. Pure.
Source of the defaults and of the variables' grammar: HAMi v2.10.0, DP_DISABLE_HEALTHCHECKS and DP_ENABLE_HEALTHCHECKS.
"""

from __future__ import annotations

from dataclasses import dataclass

APPLICATION_FAULTS = frozenset((13, 31, 43, 45, 68, 109))
"""Graphics exception, page fault, stopped processing, preemptive cleanup, video exception, context switch time-out."""

ALL = "all"
_ALL = frozenset((ALL, "xids"))


@dataclass(frozen=True, slots=True)
class Policy:
    """ignored: XIDs that do no harm; only: if set, the only ones that do.

    others: whether anything besides XIDs makes a card unhealthy.
    """

    ignored: frozenset[int] = APPLICATION_FAULTS
    only: frozenset[int] | None = None
    others: bool = True

    @property
    def listens(self) -> bool:
        """Whether any XID does harm."""
        return self.only is None or bool(self.only)

    def harms(self, xid: int) -> bool:
        """Whether this XID makes its card unhealthy."""
        return xid in self.only if self.only is not None else xid not in self.ignored


def policy(disable: str, enable: str) -> Policy:
    """The policy of two comma lists of XIDs, or `all`; words that are neither do not count.

    An XID that is enabled by number counts in any case, also where `disable` is `all` (HAMi then
    watches nothing). `xids` is about XIDs alone, `all` about every other ailment too.
    """
    disabled, enabled = _words(disable), _words(enable)
    others = ALL not in disabled or ALL in enabled
    if enabled & _ALL:
        return Policy(ignored=frozenset(), others=others)
    if disabled & _ALL:
        return Policy(only=_numbers(enabled), others=others)
    return Policy(ignored=(APPLICATION_FAULTS | _numbers(disabled)) - _numbers(enabled))


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.lower().split(",") if word.strip())


def _numbers(words: frozenset[str]) -> frozenset[int]:
    return frozenset(int(word) for word in words if word.isdecimal())
