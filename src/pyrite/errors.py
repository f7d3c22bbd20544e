"""Every error that Pyrite raises on purpose.

    PyriteError
    |-- ModelError              a model file that cannot be used
    |   |-- FormatError         not the format it claims: truncated, lying, foreign
    |   |-- UnsupportedError    well-formed, but an architecture or type not executed here
    |   |-- TensorError         a tensor missing, left over, or of the wrong shape
    |   `-- ModelNotFoundError  no file, alias or repository of that name
    |-- RequestError            what was asked for is out of bounds; the next request is unharmed
    |   |-- NoTokenizerError    a text, and the model takes ids alone: a ModelError too
    |   |-- ParameterError      one parameter: its name, value and limit
    |   |-- ContextLengthError  more tokens than the context holds
    |   `-- TemplateError       the chat template refused the messages, or is itself at fault
    |-- FetchError              a download that failed, or whose checksum differs
    |   `-- FolderError         the folder that it goes to cannot be written to
    |-- CapacityError           not enough memory or disk: what is needed and what is there
    `-- BackendError            this machine cannot run what was asked of it, or a run failed

The text of each one says what was found, what the limit is, and what to do next (`hint`).
`exit_code` is what the command line ends with (see `pyrite --help`).
"""

from __future__ import annotations


class PyriteError(Exception):
    """The root. `hint` is one sentence on what to do next, or empty."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ModelError(PyriteError):
    exit_code = 3


class FormatError(ModelError):
    pass


class UnsupportedError(ModelError):
    pass


class TensorError(ModelError):
    pass


class ModelNotFoundError(ModelError):
    exit_code = 4


class RequestError(PyriteError):
    exit_code = 2


class NoTokenizerError(UnsupportedError, RequestError):
    """A text for a model that takes token ids alone: of the model and of the request."""


class ParameterError(RequestError):
    """`name` is the parameter's public name, for dialects that report it."""

    def __init__(self, name: str, value: object, limit: str, *, hint: str = "") -> None:
        super().__init__(f"{name} = {_shown(value)}: must be {limit}", hint=hint)
        self.name = name
        self.value = value
        self.limit = limit


def _shown(value: object) -> str:
    """At most 80 characters, without building more: a hostile value may be huge."""
    if isinstance(value, (str, bytes, list, tuple, dict)) and len(value) > 80:
        return f"a {type(value).__name__} of {len(value)}"
    try:
        shown = repr(value)
    except ValueError:  # Python writes no integer of more than some thousand digits
        return "a huge integer"
    return shown if len(shown) <= 80 else shown[:77] + "..."


class ContextLengthError(RequestError):
    def __init__(self, num_tokens: int, context_length: int, *, hint: str = "") -> None:
        super().__init__(
            f"the prompt has {num_tokens} tokens and the context holds {context_length}",
            hint=hint or "shorten the prompt, or load the model with a larger context",
        )
        self.num_tokens = num_tokens
        self.context_length = context_length


class TemplateError(RequestError):
    pass


class FetchError(PyriteError):
    exit_code = 5


class FolderError(FetchError):
    exit_code = 1


class CapacityError(PyriteError):
    exit_code = 6


class BackendError(PyriteError):
    exit_code = 7
