"""What each key has used of its allowance: requests and tokens a minute, and requests at once.

Buckets that fill by the second: a key may use a minute's worth at once, and then waits. Times are
given, so that tests need no clock.
"""

from __future__ import annotations

from pyrite.server.errors import HttpError
from pyrite.server.keys import Key

MINUTE = 60.0


class Bucket:
    """Holds at most `capacity`, and fills up in a minute."""

    def __init__(self, capacity: float, now: float) -> None:
        self.capacity = capacity
        self.level = capacity
        self._at = now

    def wait(self, now: float, amount: float) -> float:
        """Seconds until `amount` is there; 0 when it is."""
        self.level = min(self.capacity, self.level + (now - self._at) * self._rate)
        self._at = now
        return max(0.0, (amount - self.level) / self._rate)

    def take(self, amount: float) -> None:
        """May go below zero: what an answer costs is known when it is there."""
        self.level -= amount

    @property
    def _rate(self) -> float:
        return self.capacity / MINUTE


class Quota:
    """One key's use."""

    def __init__(self, key: Key, now: float) -> None:
        self.key = key
        self.num_open = 0
        self._requests = Bucket(key.requests_per_minute, now) if key.requests_per_minute else None
        self._tokens = Bucket(key.tokens_per_minute, now) if key.tokens_per_minute else None

    def enter(self, now: float) -> None:
        """A request begins; `leave` must follow. Raises HttpError 429."""
        if self.key.concurrency is not None and self.num_open >= self.key.concurrency:
            raise too_many(f"{self.key.concurrency} requests at once", 1.0)
        if self._requests is not None and (seconds := self._requests.wait(now, 1)):
            raise too_many(f"{self.key.requests_per_minute:.0f} requests a minute", seconds)
        if self._tokens is not None and (seconds := self._tokens.wait(now, 1)):
            raise too_many(f"{self.key.tokens_per_minute:.0f} tokens a minute", seconds)
        if self._requests is not None:
            self._requests.take(1)
        self.num_open += 1

    def headers(self, now: float) -> list[tuple[bytes, bytes]]:
        """What is left, under the names that OpenAI has; nothing where there is no limit."""
        buckets = {"requests": self._requests, "tokens": self._tokens}
        return [
            header
            for name, bucket in buckets.items()
            if bucket is not None
            for header in headers_of(name, bucket, now)
        ]

    def leave(self) -> None:
        self.num_open -= 1

    def charge(self, num_tokens: int) -> None:
        if self._tokens is not None:
            self._tokens.take(num_tokens)


def headers_of(name: str, bucket: Bucket, now: float) -> list[tuple[bytes, bytes]]:
    full_in = bucket.wait(now, bucket.capacity)
    told = {
        "limit": f"{bucket.capacity:.0f}",
        "remaining": f"{max(0, int(bucket.level))}",
        "reset": f"{full_in:.3f}s",
    }
    return [(f"x-ratelimit-{what}-{name}".encode(), value.encode()) for what, value in told.items()]


def too_many(allowance: str, seconds: float) -> HttpError:
    return HttpError(
        429,
        "rate_limit_exceeded",
        f"this key has used its allowance of {allowance}",
        hint="wait as Retry-After says",
        retry_after=seconds,
    )
