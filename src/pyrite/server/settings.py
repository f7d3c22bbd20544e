"""What one server was asked to be: parsed once, validated wholly, then frozen."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from pyrite.errors import ParameterError
from pyrite.server.keys import Key
from pyrite.server.limits import Limits


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Raises ParameterError for a value out of range, or a public address without a key."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one
    aliases: tuple[str, ...] = ()  # further names of the model; "*" is any name
    keys: tuple[Key, ...] = ()  # without one nobody is asked for any
    allow_public_without_key: bool = False
    allow_hosts: tuple[str, ...] = ()  # names that clients may call the server by, on loopback too
    allow_origins: tuple[str, ...] = ()  # of pages elsewhere that may use it; "*" is any
    isolate_keys: bool = False  # cached prefixes are found by the key that made them alone
    drain_seconds: float = 30.0  # that streams may take to end after SIGTERM
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ParameterError("port", self.port, "a whole number from 0 to 65535")
        if not 0 <= self.drain_seconds <= 86400:
            raise ParameterError("drain_seconds", self.drain_seconds, "a number from 0 to 86400")
        if is_open_to_all(self) and not self.allow_public_without_key:
            raise ParameterError(
                "host",
                self.host,
                "a loopback address while there is no API key",
                hint="give --api-key, or --allow-public-without-key if anyone may use the model",
            )


def is_open_to_all(settings: ServerSettings) -> bool:
    """True where anyone on the network may ask, without a key."""
    return not settings.keys and not is_loopback(settings.host)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
