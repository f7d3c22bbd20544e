"""Cuts a body into server-sent events, wherever the network has cut it.

WHATWG HTML, 9.2: lines that end with LF or CRLF, `data:` lines joined, an empty line ends an event.
Only `data` is kept. A lone CR ends no line here: no server of this kind sends one.
"""

from __future__ import annotations

LIMIT = 16 << 20  # bytes of one event; a server that sends more is broken


class EventReader:
    """`feed` gives the data of every event that is whole now."""

    def __init__(self) -> None:
        self._rest = b""  # a line that is not whole
        self._data: list[bytes] = []

    def feed(self, part: bytes) -> list[bytes]:
        """Raises ValueError for an event larger than LIMIT."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        if len(self._rest) > LIMIT:
            raise ValueError(f"an event of more than {LIMIT} bytes")
        found = []
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                found.append(b"\n".join(self._data))
                self._data.clear()
        return found
