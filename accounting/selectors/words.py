"""What rows say in English, told in the reader's language: states, kinds, and sentences with names and numbers in them.

Rows keep English, which events, REST, commands and SQL read, whoever asked when they were written. A page knows the
sentence again by the words between its values. Must not know who wrote it; what nobody knows is told as it is.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from django.utils.translation import gettext, gettext_noop

WORDS: Final = (
    # States of pods, verdicts and holders
    gettext_noop("waiting"), gettext_noop("claimed"), gettext_noop("reserved"), gettext_noop("binding"),
    gettext_noop("bound"), gettext_noop("running"), gettext_noop("releasing"), gettext_noop("ended"),
    gettext_noop("pending"), gettext_noop("unmanaged"), gettext_noop("creating"), gettext_noop("refused"),
    gettext_noop("denied"), gettext_noop("error"), gettext_noop("gated"), gettext_noop("not asked yet"),
    gettext_noop("placed"), gettext_noop("admitted"), gettext_noop("no claim"),
    gettext_noop("not created yet"), gettext_noop("another namespace"), gettext_noop("free"),
    gettext_noop("placed, not running yet"), gettext_noop("being released"), gettext_noop("held by a person"),
    gettext_noop("kept back for the driver"), gettext_noop("yes"), gettext_noop("no"), gettext_noop("none"),
    # Marks of devices
    gettext_noop("unhealthy"), gettext_noop("over-committed"), gettext_noop("cordoned"),
    gettext_noop("partly held by a person"),
    # Kinds of changes
    gettext_noop("people"), gettext_noop("pod"), gettext_noop("quota"), gettext_noop("budget"),
    gettext_noop("namespace"), gettext_noop("tenant"), gettext_noop("device"), gettext_noop("hold"),
    gettext_noop("node"), gettext_noop("lock"), gettext_noop("native"), gettext_noop("price"), gettext_noop("role"),
    gettext_noop("token"), gettext_noop("clock"), gettext_noop("finding"), gettext_noop("usage"),
    # Values of changes that are no column
    gettext_noop("who"), gettext_noop("where"), gettext_noop("deleted"), gettext_noop("removed"), gettext_noop("user"),
    gettext_noop("group"), gettext_noop("epoch"), gettext_noop("incarnation"), gettext_noop("compared"),
    gettext_noop("holder"), gettext_noop("since"), gettext_noop("freed by"), gettext_noop("watcher"),
    gettext_noop("once"), gettext_noop("month"), gettext_noop("quarter"),
    # Roles and what tokens are for
    gettext_noop("viewer"), gettext_noop("member"), gettext_noop("tenant-admin"), gettext_noop("operator"),
    gettext_noop("auditor"), gettext_noop("read"), gettext_noop("write"), gettext_noop("agent"),
    # What a limit counts
    gettext_noop("core %"), gettext_noop("memory MiB"), gettext_noop("devices"), gettext_noop("% of cores"),
    gettext_noop("memory"), gettext_noop("cores"), gettext_noop("devices a pod"), gettext_noop("MiB a pod"),
    gettext_noop("% of cores a pod"), gettext_noop("MiB a share"),
    # How findings were mended
    gettext_noop("taken off"), gettext_noop("the lock has fallen"), gettext_noop("readable again"),
    gettext_noop("registered once"), gettext_noop("settled"), gettext_noop("released"), gettext_noop("counted"),
    gettext_noop("brought in line"), gettext_noop("loaded anew"), gettext_noop("it has ended"), gettext_noop("gone"),
    gettext_noop("the limit is another or gone"), gettext_noop("the object is gone"),
    gettext_noop("the ledger and the cluster agree again"), gettext_noop("the kubelet and the agent agree again"),
)  # fmt: skip

SENTENCES: Final = (
    gettext_noop("hold %(id)s"),
    gettext_noop("%(what)s until its init ends"),
    # Decisions and denied asks
    gettext_noop("node %(node)s"),
    gettext_noop("0/%(n)s nodes: %(reasons)s"),
    gettext_noop("node %(node)s"),
    gettext_noop("not ready: the ledger has not been compared with the API server yet"),
    gettext_noop("a binding to node %(node)s is under way"),
    gettext_noop("the pod is on node %(node)s already"),
    gettext_noop("the pod has ended"),
    gettext_noop("the ledger is unavailable: %(why)s"),
    gettext_noop("exceeding resource quota: %(what)s"),
    gettext_noop("waits for quota: %(what)s"),
    gettext_noop("over quota %(rule)s by %(over)s (%(what)s)"),
    gettext_noop("%(what)s; %(n)s claims pending creation"),
    gettext_noop("needs %(asked)s, free %(free)s of %(limit)s %(what)s, used %(used)s, quota %(rule)s"),
    # Findings
    gettext_noop("planned for node %(planned)s, bound to %(node)s"),
    gettext_noop("the node's lock %(value)s had no living holder"),
    gettext_noop("locked since %(at)s UTC, more than twice the time-out"),
    gettext_noop("cannot be stored: %(why)s"),
    gettext_noop("the same device uuid is registered on more than one node; it is used on none of them"),
    gettext_noop("its annotations name %(names)s, neither the devices before nor after a refit: all are held"),
    gettext_noop("bound to %(node)s in the cluster, not in the ledger"),
    gettext_noop("bound to %(node)s, not in the ledger"),
    gettext_noop("%(what)s in the ledger, gone or finished in the cluster"),
    gettext_noop("%(what)s in the ledger, gone from the cluster"),
    gettext_noop("%(what)s in the ledger, bound to %(node)s in the cluster"),
    gettext_noop("%(what)s in the ledger, %(phase)s in the cluster"),
    gettext_noop("%(what)s in the ledger, on %(node)s in the cluster"),
    gettext_noop("%(what)s on %(there)s in the ledger, on %(node)s in the cluster"),
    gettext_noop("on node %(node)s in the ledger, %(there)s in the cluster"),
    gettext_noop("containers started or ended that the ledger did not hear of"),
    gettext_noop("its annotations cannot be decoded: %(why)s"),
    gettext_noop("holds %(held)s in the ledger, %(expected)s by its annotations"),
    gettext_noop("folded View differs from a fresh load in %(names)s"),
    gettext_noop("the kubelet has given it %(names)s, and the agent has no record of it"),
    gettext_noop("the kubelet says that it holds %(names)s, the agent was asked for %(others)s"),
    gettext_noop("the agent gave it devices, and the kubelet says that it holds none"),
    gettext_noop("%(key)s: %(n)s limits nothing: %(what)s"),
    gettext_noop("the unit is %(unit)s: write %(n)s"),
    gettext_noop("the unit is %(unit)s"),
    gettext_noop(
        "uses devices of node %(node)s that nobody has accounted: while it lives the node takes no new"
        " pods with devices, unless its agent reports which they are"
    ),
    gettext_noop("pod %(pod)s: %(why)s"),
    gettext_noop(
        "%(pod)s was %(what)s on %(node)s when its shares were released by hand; its devices may be over-used"
    ),
    gettext_noop("counted on %(names)s"),
    gettext_noop("container %(container)s was given %(names)s, and the ledger says %(others)s"),
)

_ANY, _NAME = ".", r"\S"
_VALUE = re.compile(r"%\((\w+)\)s")
INNER: Final = "what"
"""A value of this name is itself something to tell."""
WITH_BLANKS: Final = frozenset({INNER, "why", "names", "others", "reasons", "held", "expected", "value", "at", "unit"})
"""Values that may have blanks in them; any other is one name or number."""


def told(text: str) -> str:
    """The word or sentence in the reader's language; any other text as it is."""
    if text in _KNOWN:
        return gettext(text)
    if (parts := text.split(", "))[1:] and _KNOWN.issuperset(parts):
        return ", ".join(map(gettext, parts))
    template = template_of(text)
    if template is None:
        return text
    values = _pattern(template).fullmatch(text)
    given = values.groupdict() if values is not None else {}
    if INNER in given:
        given[INNER] = told(given[INNER])
    return gettext(template) % given


@functools.lru_cache(maxsize=8192)  # a heat map tells of thousands of names, which are no sentences, at each drawing
def template_of(text: str) -> str | None:
    """The sentence that this text is, the one with the most words of its own first; None for none."""
    return next((one for one, part in _BY_LENGTH if part in text and _pattern(one).fullmatch(text)), None)


@functools.cache
def _pattern(template: str) -> re.Pattern[str]:
    parts = _VALUE.split(template)
    return re.compile("".join(_named(part) if n % 2 else re.escape(part) for n, part in enumerate(parts)), re.DOTALL)


def _named(value: str) -> str:
    return f"(?P<{value}>{_ANY if value in WITH_BLANKS else _NAME}+?)"


_KNOWN: Final = frozenset(WORDS)
_BY_LENGTH: Final = [
    (one, max(_VALUE.split(one)[::2], key=len)) for one in sorted(SENTENCES, key=lambda one: -len(_VALUE.sub("", one)))
]
"""Each sentence with the longest of its own words, which a text that has none of them need not be matched with."""
