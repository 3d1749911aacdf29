"""The node agent: advertises a node's GPUs as shares and hands a container what was reserved for it.

Must not know: Django, the database, or how a placement is decided.
"""

from __future__ import annotations

VERSION = "0.1.0"
"""Value of the node label `platform.hami.io/agent`: valid as a label, so letters, digits, dots and dashes."""
