"""Reader of tokenizer.json: a vocabulary, its merges and its added tokens as `TokenizerData`.

What the native tokenizer knows becomes its data; of anything else the tokens are read, and the rest
is left to the `tokenizers` library, by name of what is not known. The two long lists are read by
the native core, without an object for each entry. Every number is bounded.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from pyrite._native import text as native
from pyrite.errors import FormatError
from pyrite.formats import pipelines
from pyrite.formats.added_tokens import AddedToken, Stated, completed
from pyrite.formats.checkpoint import Normalization, StringTable, TokenizerData
from pyrite.formats.json_file import decoded, refuse_foreign
from pyrite.formats.mapping import map_file
from pyrite.formats.pipelines import UnknownPartError
from pyrite.formats.token_table import (
    BYTE,
    MAX_TOKENS,
    NAME,
    UNKNOWN,
    TokenTable,
    finder,
    string_table,
)
from pyrite.records import dataclass

MAX_BYTES = 1 << 27
MAX_ENTRIES = MAX_TOKENS  # of each long list
MAX_ADDED_BYTES = 1 << 23  # of all added tokens: the largest published list has a tenth
MAX_PART_BYTES = 1 << 20  # of one step, pattern and all

Raw = msgspec.Raw
T = TypeVar("T")
ABSENT = Raw(b"null")


class Model(msgspec.Struct):
    """Of every type. `vocab` and `merges` are here where the native core does not read them."""

    vocab: Raw = ABSENT
    type: str = "BPE"  # the oldest files do not say
    merges: Raw = ABSENT
    unk_token: str | None = None
    unk_id: int | None = None
    dropout: float | None = None
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    byte_fallback: bool = False
    ignore_merges: bool = False


class File(msgspec.Struct):
    model: Model
    added_tokens: Raw = Raw(b"[]")
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


@dataclass(frozen=True, slots=True)
class TokenizerFile:
    """`find`: the id of a token by its name. `before` and `after`: the ids that frame a text."""

    data: TokenizerData
    find: Callable[[str], int | None]
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


def read_tokenizer_json(
    path: Path, stated: Sequence[tuple[int | None, Stated]] = ()
) -> TokenizerFile:
    """`stated`: what the files beside it say of added tokens.

    Raises FormatError for a file that is no tokenizer, or contradicts itself.
    """
    rest, names, merges = _lists(map_file(path))
    file = _decoded(rest, File, NAME)
    parts = Parts(*(_part(getattr(file, name), name) for name in Parts.__struct_fields__))
    model = file.model
    if names is None:
        names = _numbered(model)
    added, changed = completed(_added(file.added_tokens), stated, finder(names), len(names))
    table = TokenTable(names, added)
    unknown_id = model.unk_id if model.type == "Unigram" else None
    if unknown_id is None and model.unk_token is not None:
        unknown_id = table.find(model.unk_token)
    try:
        if model.type != "BPE":
            raise UnknownPartError(f"a model of type {model.type[:40]}")
        before, after = pipelines.frame(parts.post_processor)
        data = _known(model, parts, table, _merges(model, merges), unknown_id)
        return TokenizerFile(data, table.find, before, after)
    except UnknownPartError as error:
        return _left(path, parts, str(error), table, unknown_id, changed)


def _lists(
    text: NDArray[np.uint8],
) -> tuple[bytes, native.TokenNames | None, StringTable | None]:
    """The file without its long lists, the names of tokens, and the merges."""
    if len(text) > MAX_BYTES:
        raise FormatError(f"{NAME} is larger than {MAX_BYTES} bytes")
    try:
        rest, names, merges = native.read_tokenizer_json(text, MAX_ENTRIES)
    except ValueError as error:
        refuse_foreign(text[:512].tobytes(), NAME)
        raise FormatError(f"{NAME}: {error}") from None
    return rest, names, None if merges is None else StringTable(*merges)


def _numbered(model: Model) -> native.TokenNames:
    """A Unigram model lists its tokens with scores; an id is a place in the list."""
    if bytes(model.vocab).count(b'"') > 2 * MAX_ENTRIES:
        raise FormatError(f"{NAME}: vocab has more than {MAX_ENTRIES} entries")
    scored = _decoded(model.vocab, list[tuple[str, float]], "vocab")
    names = string_table([name for name, _ in scored])
    return native.TokenNames.numbered((names.data, names.starts, names.lengths))


def _merges(model: Model, read: StringTable | None) -> StringTable:
    if read is not None:
        return read
    _decoded(model.merges, type(None), "merges")
    return string_table([])


def _added(raw: Raw) -> list[AddedToken]:
    if len(bytes(raw)) > MAX_ADDED_BYTES:
        raise FormatError(f"{NAME}: added_tokens have more than {MAX_ADDED_BYTES} bytes")
    return _decoded(raw, list[AddedToken], "added_tokens")


def _known(
    model: Model, parts: Parts, table: TokenTable, merges: StringTable, unknown_id: int | None
) -> TokenizerData:
    """Raises UnknownPartError."""
    if model.dropout:
        raise UnknownPartError("merges that are left out at random (dropout)")
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        _check_prefix(merges, model.continuing_subword_prefix or "")
        raise UnknownPartError("pieces with a prefix or a suffix of their own")
    if any(token.single_word for token in table.added):
        raise UnknownPartError("added tokens that match whole words alone (single_word)")
    table.mark_added(_made(table.special_pieces(), merges))
    kind = _byte_level if _is_byte_level(parts) else _pieces
    return kind(model, parts, table, merges, unknown_id)


def _check_prefix(merges: StringTable, prefix: str) -> None:
    """The library cuts it off without a look, and takes the process along where it is not there."""
    for rank in range(len(merges)):
        right = merges[rank].partition(b" ")[2].decode()
        if not right.startswith(prefix):
            raise FormatError(f"{NAME}: a merge with {right[:40]!r}, which lacks {prefix[:40]!r}")


def _made(special: Sequence[AddedToken], merges: StringTable) -> set[str]:
    """Those that a merge makes."""
    if not special:
        return set()
    names = string_table([token.content for token in special])
    pairs = (merges.data, merges.starts, merges.lengths)
    made = native.made_names(pairs, (names.data, names.starts, names.lengths))
    return {token.content for token, is_made in zip(special, made.tolist(), strict=True) if is_made}


def _is_byte_level(parts: Parts) -> bool:
    return any(step.get("type") == "ByteLevel" for step in pipelines.stages(parts.pre_tokenizer))


def _byte_level(
    model: Model, parts: Parts, table: TokenTable, merges: StringTable, unknown_id: int | None
) -> TokenizerData:
    pipelines.check_byte_decoder(parts.decoder)
    form = pipelines.normalization(parts.normalizer)
    if form is not None:
        _check_normalized(table.added, form)
    return TokenizerData(
        model="bpe",
        pre=pipelines.splitter(parts.pre_tokenizer, whole_words=model.ignore_merges),
        tokens=table.tokens,
        types=table.types,
        scores=None,
        merges=merges,
        unknown_id=unknown_id,
        add_space_prefix=any(map(pipelines.puts_space, pipelines.stages(parts.pre_tokenizer))),
        marks=table.marks,
        whole_words=model.ignore_merges,
        space_prefix="unless spaced",
        normalization=form,
    )


def _check_normalized(added: Iterable[AddedToken], form: Normalization) -> None:
    """Late markers are looked for where text has been normalized, and so have they."""
    for token in added:
        if token.normalized and (
            token.special or not unicodedata.is_normalized(form, token.content)
        ):
            raise UnknownPartError(
                f"the added token {token.content[:40]!r}, which is looked for in normalized text"
            )


def _pieces(
    model: Model, parts: Parts, table: TokenTable, merges: StringTable, unknown_id: int | None
) -> TokenizerData:
    spaces = pipelines.spaces(parts.normalizer, parts.pre_tokenizer)
    strips = pipelines.strips_space(parts.decoder)
    found = (table.find(f"<0x{byte:02X}>") for byte in range(256))
    byte_ids = [token_id for token_id in found if token_id is not None]
    if not model.byte_fallback or len(byte_ids) < 256:
        raise UnknownPartError("no pieces for the bytes of unknown characters (byte_fallback)")
    if model.ignore_merges:
        raise UnknownPartError("words that are taken whole (ignore_merges)")
    if spaces.replaces_first:
        _check_late(table.added, prefix=spaces.prefix is not None)
    if table.pieces_hold(b" "):
        raise UnknownPartError("pieces with spaces")
    table.types[byte_ids] = BYTE
    table.marks[byte_ids] = 0
    if unknown_id is not None:
        table.types[unknown_id] = UNKNOWN
    return TokenizerData(
        model="spm",
        pre=None,
        tokens=table.tokens,
        types=table.types,
        scores=None,
        merges=merges,
        unknown_id=unknown_id,
        add_space_prefix=spaces.prefix is not None,
        marks=table.marks,
        space_prefix=spaces.prefix or "always",
        strips_space=strips,
        cuts_at_spaces=spaces.cuts,
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


def _left(
    path: Path,
    parts: Parts,
    unknown: str,
    table: TokenTable,
    unknown_id: int | None,
    changed: Sequence[AddedToken],
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
        tokens=table.tokens,
        types=table.types,
        scores=None,
        merges=None,
        unknown_id=unknown_id,
        source=path,
        unknown=unknown,
        added=tuple(changed),
    )
    return TokenizerFile(data, table.find, before, after)


def _part(raw: Raw, name: str) -> dict[str, Any] | None:
    if len(bytes(raw)) > MAX_PART_BYTES:
        raise FormatError(f"{NAME}: {name} has more than {MAX_PART_BYTES} bytes")
    if bytes(raw) == b"null":
        return None
    return _decoded(raw, dict[str, Any], name)


def _decoded(text: bytes | Raw, kind: type[T], name: str) -> T:
    return decoded(text, kind, NAME if name == NAME else f"{NAME}: {name}")
