"""The WSGI application that granian loads, one per worker process."""

from __future__ import annotations

import os
import sys
from typing import Final

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler

from hami_platform import collector, env, metrics

SWITCH_S: Final = 0.001
"""How long a thread that computes may keep one waiting that comes back from the database. Python's own 5 ms, paid at
each of a decision's statements while traces are written, would be most of its time."""


def application_for(role: str) -> WSGIHandler:
    """The application of a role. Webhook and extender answer machines: no session, no cookie, no middleware at all.

    The list is emptied after setup because apps check it there, and all other commands should see one and the same.
    """
    django.setup(set_prefix=False)
    if role in {"webhook", "extender"}:
        settings.MIDDLEWARE = []
        sys.setswitchinterval(SWITCH_S)
        if (bind := env.current().metrics_bind) is not None:
            metrics.serve_when_free(bind)  # beside their own /metrics: where HAMi's are looked for
    collector.calm()
    return WSGIHandler()


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hami_platform.settings")

application = application_for(env.current().role)
