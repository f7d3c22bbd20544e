"""What is asked of which server: the address, the endpoint, and the JSON of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pyrite.cli.load.http import Address, encode_request
from pyrite.cli.load.prompts import Prompt

PATHS = {"chat": "/chat/completions", "completions": "/completions"}


@dataclass(frozen=True, slots=True)
class Target:
    """`fields` are merged into the body of every request."""

    address: Address
    model: str
    endpoint: str = "chat"  # a key of PATHS
    headers: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)

    def encode(self, prompt: Prompt, max_tokens: int, **more: Any) -> bytes:
        """A whole request, as it goes over the wire."""
        body = {"model": self.model, **self._prompt(prompt), "max_tokens": max_tokens}
        data = msgspec.json.encode({**body, **self.fields, **more})
        return encode_request(self.address, PATHS[self.endpoint], data, self.headers)

    def encode_stream(self, prompt: Prompt, max_tokens: int, **more: Any) -> bytes:
        streamed = {"stream": True, "stream_options": {"include_usage": True}}
        return self.encode(prompt, max_tokens, **streamed, **more)

    def _prompt(self, prompt: Prompt) -> dict[str, Any]:
        if self.endpoint == "completions":
            return {"prompt": f"{prompt.shared} {prompt.own}" if prompt.shared else prompt.own}
        system = [{"role": "system", "content": prompt.shared}] if prompt.shared else []
        return {"messages": [*system, {"role": "user", "content": prompt.own}]}
