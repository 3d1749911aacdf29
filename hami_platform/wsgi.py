"""The WSGI application that granian loads. One per worker process."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hami_platform.settings")

application = get_wsgi_application()
