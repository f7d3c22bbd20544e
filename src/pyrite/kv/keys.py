"""The name of a page's content: a hash over everything that its keys and values depend on.

A page's key covers the tokens in it and the key of the page before it, and so all tokens before;
the first one follows a root key, which covers who may find it and what computed it. Each part is
hashed with its own tag and length, so that no two different parts join to the same bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b

KEY_BYTES = 32


def root_key(namespace: str, fingerprint: str) -> bytes:
    """`fingerprint` names the model, its adapter and the type of its keys and values."""
    return _digest((b"namespace", namespace.encode()), (b"fingerprint", fingerprint.encode()))


def page_key(before: bytes, token_ids: Sequence[int]) -> bytes:
    """`before` is the key of the page before, or a root key."""
    return _digest((b"before", before), (b"tokens", array("i", token_ids).tobytes()))


def state_key(page: bytes) -> bytes:
    """Of the state after the last token of the page with this key."""
    return _digest((b"state after", page))


def _digest(*parts: tuple[bytes, bytes]) -> bytes:
    tagged = (b"%b %d:%b" % (tag, len(value), value) for tag, value in parts)
    return blake2b(b"".join(tagged), digest_size=KEY_BYTES).digest()
