"""Reader of tokenizer.json: a vocabulary, its merges and its added tokens as `TokenizerData`.

What the native tokenizer knows becomes its data; of anything else the tokens are read, and the rest
is left to the `tokenizers` library, by name of what is not known. Every number is bounded, and the
objects that a file can make are counted before they are made.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError
from pyrite.formats import pipelines
from pyrite.formats.checkpoint import Mark, StringTable, TokenizerData
from pyrite.formats.json_file import content_of, decoded
from pyrite.formats.pipelines import UnknownPartError

NAME = "tokenizer.json"
MAX_BYTES = 1 << 27
MAX_STRINGS = 1 << 23  # in the file: the largest published ones have 1.6 million
MAX_TOKENS = 1 << 22
MAX_PART_BYTES = 1 << 20  # of one step, pattern and all
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)  # tokenizer.ggml.token_type

Raw = msgspec.Raw
T = TypeVar("T")
ABSENT = Raw(b"null")


class AddedToken(msgspec.Struct):
    id: int
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = True
    special: bool = False


class Model(msgspec.Struct):
    """Of every type of model. What is large stays as it is written until it is wanted."""

    vocab: Raw
    type: str = "BPE"  # the oldest files do not say
    merges: Raw = Raw(b"[]")
    unk_token: str | None = None
    unk_id: int | None = None
    dropout: float | None = None
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    byte_fallback: bool = False
    ignore_merges: bool = False


class File(msgspec.Struct):
    model: Model
    added_tokens: list[AddedToken] = []
    normalizer: Raw = ABSENT
    pre_tokenizer: Raw = ABSENT
    post_processor: Raw = ABSENT
    decoder: Raw = ABSENT


class Parts(msgspec.Struct):
    """The small parts, as they are."""

    normalizer: dict[str, Any] | None
    pre_tokenizer: dict[str, Any] | None
    post_processor: dict[str, Any] | None
    decoder: dict[str, Any] | None


class TokenizerFile(msgspec.Struct):
    """`before` and `after`: the ids that frame a text."""

    data: TokenizerData
    ids: dict[str, int]
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


def read_tokenizer_json(path: Path) -> TokenizerFile:
    """Raises FormatError for a file that is no tokenizer, or contradicts itself."""
    with uncollected():
        return _read_tokenizer_json(path)


@contextmanager
def uncollected() -> Iterator[None]:
    """Hundreds of thousands of objects are made, and none of them is garbage: looking for that
    would take a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read_tokenizer_json(path: Path) -> TokenizerFile:
    file = _decoded(_read(path), File, NAME)
    parts = Parts(*(_part(getattr(file, name), name) for name in Parts.__struct_fields__))
    model = file.model
    vocab, unknown_id = _vocabulary(model)
    table = Table(vocab, file.added_tokens)
    if unknown_id is None and model.unk_token is not None:
        unknown_id = table.ids.get(model.unk_token)
    try:
        if model.type != "BPE":
            raise UnknownPartError(f"a model of type {model.type[:40]}")
        before, after = pipelines.frame(parts.post_processor)
        return TokenizerFile(_known(model, parts, table, unknown_id), table.ids, before, after)
    except UnknownPartError as error:
        return _left(path, parts, str(error), table, unknown_id)


def _vocabulary(model: Model) -> tuple[dict[str, int], int | None]:
    """A Unigram model lists its tokens, and numbers the unknown one; others name all ids."""
    if model.type != "Unigram":
        return _decoded(model.vocab, dict[str, int], "vocab"), None
    scored = _decoded(model.vocab, list[tuple[str, float]], "vocab")
    return {name: index for index, (name, _) in enumerate(scored)}, model.unk_id


class Table:
    """Tokens by id, and what the file says of each."""

    def __init__(self, vocab: Mapping[str, int], added: Sequence[AddedToken]) -> None:
        self.ids = dict(vocab)
        self.added = added
        for token in added:
            known = self.ids.setdefault(token.content, token.id)
            if known != token.id:
                problem = f"the added token {token.content[:40]!r} has id {token.id}, and {known}"
                raise FormatError(f"{NAME}: {problem} in the vocabulary")
        numbers = _checked_ids(self.ids)
        self.size = int(numbers.max()) + 1
        self.texts = [""] * self.size
        for name, token_id in self.ids.items():
            self.texts[token_id] = name
        self.types = np.full(self.size, UNUSED, np.int32)
        self.types[numbers] = NORMAL
        self.marks = np.zeros(self.size, np.uint8)
        self.marks[numbers[: len(vocab)]] = Mark.PIECE

    def mark_added(self, made: set[str]) -> None:
        """`made`: the special tokens that merges make as well, which therefore stay pieces."""
        for token in self.added:
            self.types[token.id] = CONTROL if token.special else USER
            mark = self.marks[token.id] & Mark.PIECE
            if token.special and token.content not in made:
                mark = 0
            mark |= Mark.MARKER
            mark |= Mark.LEFT if token.lstrip else 0
            mark |= Mark.RIGHT if token.rstrip else 0
            mark |= Mark.LATE if token.normalized else 0
            self.marks[token.id] = mark


def _known(model: Model, parts: Parts, table: Table, unknown_id: int | None) -> TokenizerData:
    """Raises UnknownPartError."""
    if model.dropout:
        raise UnknownPartError("merges that are left out at random (dropout)")
    pairs = _decoded(model.merges, list[str | tuple[str, str]], "merges")
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        _check_prefix(pairs, model.continuing_subword_prefix or "")
        raise UnknownPartError("pieces with a prefix or a suffix of their own")
    if any(token.single_word for token in table.added):
        raise UnknownPartError("added tokens that match whole words alone (single_word)")
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in pairs]
    table.mark_added(_made(table.added, merges))
    kind = _byte_level if _is_byte_level(parts) else _pieces
    return kind(model, parts, table, merges, unknown_id)


def _check_prefix(pairs: Iterable[str | tuple[str, str]], prefix: str) -> None:
    """The library cuts it off without a look, and takes the process along where it is not there."""
    for pair in pairs:
        right = pair.partition(" ")[2] if isinstance(pair, str) else pair[1]
        if not right.startswith(prefix):
            raise FormatError(f"{NAME}: a merge with {right[:40]!r}, which lacks {prefix[:40]!r}")


def _is_byte_level(parts: Parts) -> bool:
    return any(step.get("type") == "ByteLevel" for step in pipelines.stages(parts.pre_tokenizer))


def _byte_level(
    model: Model, parts: Parts, table: Table, merges: list[str], unknown_id: int | None
) -> TokenizerData:
    pipelines.check_byte_decoder(parts.decoder)
    form = pipelines.normalization(parts.normalizer)
    if form and any(token.normalized and token.special for token in table.added):
        raise UnknownPartError("special tokens that are looked for in normalized text")
    return TokenizerData(
        model="bpe",
        pre=pipelines.splitter(parts.pre_tokenizer, whole_words=model.ignore_merges),
        tokens=string_table(table.texts),
        types=table.types,
        scores=None,
        merges=string_table(merges),
        unknown_id=unknown_id,
        add_space_prefix=False,
        marks=table.marks,
        whole_words=model.ignore_merges,
        normalization=form,
    )


def _pieces(
    model: Model, parts: Parts, table: Table, merges: list[str], unknown_id: int | None
) -> TokenizerData:
    spaces = pipelines.spaces(parts.normalizer, parts.pre_tokenizer)
    pipelines.check_piece_decoder(parts.decoder, strips=spaces.prefix is not None)
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    if not model.byte_fallback or not all(name in table.ids for name in names):
        raise UnknownPartError("no pieces for the bytes of unknown characters (byte_fallback)")
    if model.ignore_merges:
        raise UnknownPartError("words that are taken whole (ignore_merges)")
    if spaces.replaces_first:
        _check_late(table.added, prefix=spaces.prefix is not None)
    if any(" " in text for text in compress(table.texts, table.marks & Mark.PIECE)):
        raise UnknownPartError("pieces with spaces")
    byte_ids = [table.ids[name] for name in names]
    table.types[byte_ids] = BYTE
    table.marks[byte_ids] = 0
    if unknown_id is not None:
        table.types[unknown_id] = UNKNOWN
    return TokenizerData(
        model="spm",
        pre=None,
        tokens=string_table(table.texts),
        types=table.types,
        scores=None,
        merges=string_table(merges),
        unknown_id=unknown_id,
        add_space_prefix=spaces.prefix is not None,
        marks=table.marks,
        space_prefix=spaces.prefix or "always",
    )


def _check_late(added: Iterable[AddedToken], *, prefix: bool) -> None:
    """Late markers are looked for where spaces have been replaced, and one was put before."""
    for token in added:
        if token.normalized and (
            prefix or token.lstrip or token.rstrip or set(token.content) & {" ", "\u2581"}
        ):
            raise UnknownPartError(
                f"the added token {token.content[:40]!r}, which is looked for in normalized text"
            )


def _made(added: Iterable[AddedToken], merges: Iterable[str]) -> set[str]:
    """The special tokens that a merge makes."""
    ways = {
        f"{token.content[:cut]} {token.content[cut:]}": token.content
        for token in added
        if token.special and len(token.content) <= 64
        for cut in range(1, len(token.content))
    }
    return {ways[way] for way in ways.keys() & merges} if ways else set()


def _left(
    path: Path, parts: Parts, unknown: str, table: Table, unknown_id: int | None
) -> TokenizerFile:
    """What the library is to do: of the file, only the tokens are read."""
    table.mark_added(set())
    try:
        before, after = pipelines.frame(parts.post_processor)
    except UnknownPartError:
        before, after = (), ()
    data = TokenizerData(
        model="library",
        pre=None,
        tokens=string_table(table.texts),
        types=table.types,
        scores=None,
        merges=None,
        unknown_id=unknown_id,
        source=path,
        unknown=unknown,
    )
    return TokenizerFile(data, table.ids, before, after)


def _checked_ids(ids: Mapping[str, int]) -> NDArray[np.int64]:
    """All ids, in the order of the names."""
    if not ids:
        raise FormatError(f"{NAME} has no tokens")
    try:
        numbers = np.fromiter(ids.values(), np.int64, len(ids))
    except OverflowError:
        raise FormatError(f"{NAME} has a token id of more than 64 bits") from None
    low, high = int(numbers.min()), int(numbers.max())
    if low < 0 or high >= MAX_TOKENS:
        problem = f"token ids from {low} to {high}: must be from 0 to {MAX_TOKENS - 1}"
        raise FormatError(f"{NAME} has {problem}")
    counts = np.bincount(numbers)
    if counts.max() > 1:
        twice = int(counts.argmax())
        names = [name for name, token_id in ids.items() if token_id == twice]
        shown = " and ".join(repr(name[:40]) for name in names[:2])
        raise FormatError(f"{NAME}: {shown} have one id, {twice}")
    return numbers


def string_table(texts: Sequence[str]) -> StringTable:
    """The strings in one buffer, each ended by a zero byte where no string holds one."""
    try:
        joined = np.frombuffer("\0".join([*texts, ""]).encode(), np.uint8)
    except UnicodeEncodeError:
        raise FormatError(f"{NAME} holds half of a surrogate pair") from None
    ends = np.flatnonzero(joined == 0)
    if len(ends) != len(texts):
        sizes = np.fromiter((len(text.encode()) for text in texts), np.int64, len(texts))
        ends = np.cumsum(sizes + 1) - 1
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1]).astype(np.int64)
    return StringTable(joined, starts[: len(texts)], (ends - starts[: len(ends)]).astype(np.int32))


def _read(path: Path) -> bytes:
    text = content_of(path, MAX_BYTES)
    if text.count(b'"') > 2 * MAX_STRINGS:
        raise FormatError(f"{NAME} holds more than {MAX_STRINGS} strings")
    return text


def _part(raw: Raw, name: str) -> dict[str, Any] | None:
    if len(bytes(raw)) > MAX_PART_BYTES:
        raise FormatError(f"{NAME}: {name} has more than {MAX_PART_BYTES} bytes")
    if bytes(raw) == b"null":
        return None
    return _decoded(raw, dict[str, Any], name)


def _decoded(text: bytes | Raw, kind: type[T], name: str) -> T:
    return decoded(text, kind, NAME if name == NAME else f"{NAME}: {name}")
