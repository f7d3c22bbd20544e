"""The `tokenizers` library, which is optional: imported here alone, its faults told in our words.

It raises plain exceptions, and panics. A panic also writes to the process's standard error before
anything can catch it; while a tokenizer is made, what is written there is held back, and given out
afterwards without that. Knows no vocabulary.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any, TypeVar

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats.added_tokens import FLAGS, AddedToken

T = TypeVar("T")

PROBE = "a É1\n\u0300漢 "  # finds parts that are broken only when they are used
PANIC = re.compile(rb"\n?thread '[^\n]* panicked at .*?(?:\nnote: [^\n]*\n|\Z)", re.DOTALL)
_turn = Lock()  # standard error is the process's


def find_library(wanted_for: str) -> Callable[[str], Any]:
    """What makes a tokenizer of a tokenizer.json's text. Raises UnsupportedError without it."""
    try:
        from tokenizers import Tokenizer as Library
    except ImportError:
        raise UnsupportedError(
            f"the tokenizer has {wanted_for}, which is not known here",
            hint="the tokenizers library may know it: pip install 'pyrite-llm[tokenizers]'",
        ) from None
    made: Callable[[str], Any] = Library.from_str
    return made


def made_by(make: Callable[[str], Any], source: str, added: Sequence[AddedToken] = ()) -> Any:
    """The library's tokenizer, told of tokens that the source has not, or not so.

    Raises FormatError; one that panics at any text is none.
    """
    with panics_unheard():
        made = called(make, source)
        called(_add, made, added)
        called(_try, made)
    return made


def _add(made: Any, added: Sequence[AddedToken]) -> None:
    from tokenizers import AddedToken as Added

    made.add_tokens(
        [Added(one.content, **{name: getattr(one, name) for name in FLAGS}) for one in added]
    )


def _try(made: Any) -> None:
    with suppress(Exception):  # of what it cannot write a request will be told
        made.decode(made.encode(PROBE).ids)


def called(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """A call into the library. Raises FormatError for whatever it raises."""
    try:
        return function(*arguments, **options)
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:
        raise FormatError(f"the tokenizers library: {str(error)[:200]}") from None


@contextmanager
def panics_unheard() -> Iterator[None]:
    """What is written to standard error meanwhile comes at the end, without a panic's message."""
    with _turn, tempfile.TemporaryFile() as held:
        kept = _redirected(held.fileno())
        try:
            yield
        finally:
            if kept is not None:
                os.dup2(kept, 2)
                os.close(kept)
                held.seek(0)
                _write(PANIC.sub(b"", held.read()))


def _redirected(file: int) -> int | None:
    """Where standard error went until now; None where the process has none."""
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:
        return None
    os.dup2(file, 2)
    return kept


def _write(text: bytes) -> None:
    while text:
        try:
            text = text[os.write(2, text) :]
        except OSError:  # nobody reads it any more
            return
