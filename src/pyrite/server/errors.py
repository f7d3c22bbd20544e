"""Errors that HTTP alone knows, and the status of every other one.

Dialects wrap them in their own envelopes. No text here ever holds a prompt, a key or a path.
"""

from __future__ import annotations

from pyrite.errors import (
    BackendError,
    CapacityError,
    FetchError,
    ModelNotFoundError,
    PyriteError,
    RequestError,
)


class HttpError(PyriteError):
    """A request that is turned away for `status`. `code` is a word that clients compare."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str = "",
        retry_after: float | None = None,  # seconds
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.retry_after = retry_after


def status_of(error: BaseException) -> int:
    if isinstance(error, HttpError):
        return error.status
    if isinstance(error, RequestError):
        return 400
    if isinstance(error, ModelNotFoundError):
        return 404
    if isinstance(error, CapacityError):
        return 503
    return 502 if isinstance(error, FetchError) else 500


def words_of(error: BaseException) -> str:
    """What a client may read of an error: its own words, and nothing of a bug's insides."""
    if isinstance(error, PyriteError):
        return str(error)
    return "the server failed to answer; its log says more"


def not_ready(error: PyriteError | None) -> HttpError:
    reason = "the model is being loaded" if error is None else "there is no engine at the moment"
    hint = "ask again in a moment; /readyz tells when"
    return HttpError(503, "not_ready", reason, hint=hint, retry_after=1)


def is_bug(error: BaseException) -> bool:
    """True for what the log must tell in full."""
    return not isinstance(error, PyriteError) or type(error) is BackendError
