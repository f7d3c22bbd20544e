"""The server's log: one line of JSON an event, so that nothing a client sends can forge a line.

No prompt, no answer and no key is ever given to it.
"""

from __future__ import annotations

import logging
import time
from typing import IO

import msgspec


class JsonLines(logging.Formatter):
    """`extra={"fields": {...}}` of a record are members of its object."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": self._time(record.created),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()

    def _time(self, seconds: float) -> str:
        whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        return f"{whole}.{int(seconds % 1 * 1000):03d}Z"


def start_logging(stream: IO[str], *, access: bool) -> None:
    """Everything of Pyrite goes to the stream; of others, warnings."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    own = logging.getLogger("pyrite")
    own.handlers.clear()  # the command line's, which say warnings as plain text
    own.propagate = True
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("pyrite.access").setLevel(logging.INFO if access else logging.WARNING)
