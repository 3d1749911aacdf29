"""Logging of every process: key=value for people, or one JSON object a line. Knows no app and no Django.

Log once per decision, at the edge: `logs.get(__name__).info("bound", uid=uid, node=node)`. Values under keys that
sound like secrets are masked, and query strings and one-time links are cut, whoever logs them.
"""

from __future__ import annotations

import logging
import logging.config
import re
from collections.abc import MutableMapping
from typing import Any, Final

import structlog

_SECRET: Final = re.compile(r"token|password|passwd|secret|authorization|cookie|api_?key|private_key", re.IGNORECASE)
_QUERY: Final = re.compile(r"((?:https?://|(?<![\w/])/)[^\s?#\"']*)\?[^\s\"']+")
_USERINFO: Final = re.compile(r"(\b[a-z][a-z0-9+]*://)[^\s/@:]*:[^\s/@]*@")
_LINK: Final = re.compile(r"(/login/)[^\s/?#\"']+")  # a one-time link's path is its secret
_MASK: Final = "***"


def get(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of a module."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def configure(level: str, form: str) -> None:
    """Send everything, third parties' records too, to standard error. `form` is `text` or `json`."""
    structlog.configure(
        processors=_processors,
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(standard(level, form))


def standard(level: str, form: str) -> dict[str, Any]:
    """The same as a dictionary for `logging.config`, for servers that want one of their own."""
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, _renderer(form)],
        "foreign_pre_chain": _shared(),
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": level.upper()},
        # These log each request or connection at info, which at 200 decisions a second drowns everything.
        "loggers": {name: {"level": "WARNING"} for name in ("urllib3", "kubernetes", "httpx", "asyncio", "amqp")},
    }


def _shared() -> list[structlog.typing.Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        mask,
    ]


def _renderer(form: str) -> structlog.typing.Processor:
    if form == "json":
        return structlog.processors.JSONRenderer()
    return structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event", "logger"], bool_as_flag=False)


def mask(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Mask values under secret-sounding keys; cut query strings and passwords out of addresses in any text."""
    for key, value in event.items():
        if _SECRET.search(key):
            event[key] = _MASK
        elif isinstance(value, str):
            event[key] = _USERINFO.sub(rf"\1{_MASK}@", _LINK.sub(rf"\1{_MASK}", _QUERY.sub(r"\1", value)))
    return event


_processors = [*_shared(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter]
"""One list whenever logging is configured: loggers keep the one that they first met."""
