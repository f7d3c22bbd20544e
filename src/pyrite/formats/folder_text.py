"""What a hub folder says of text: its tokenizer, special tokens, stop tokens and chat templates.

`tokenizer.json` tells how text becomes ids (`tokenizer_json`), the files beside it which tokens
begin and end a text. How an architecture uses them is unknown here.

Source of the files and their order: what the `transformers` library reads.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from pyrite.errors import FormatError
from pyrite.formats.added_tokens import Stated, stated_tokens
from pyrite.formats.checkpoint import TokenizerData
from pyrite.formats.folder import inside
from pyrite.formats.json_file import content_of, decoded
from pyrite.formats.token_table import NAME
from pyrite.formats.tokenizer_json import TokenizerFile, read_tokenizer_json
from pyrite.records import dataclass

MAX_TEMPLATES = 64
NAMES = tuple(f"{name}_token" for name in ("bos", "eos", "unk", "pad", "sep", "cls", "mask"))
logger = logging.getLogger("pyrite")


class NamedTemplate(msgspec.Struct):
    name: str
    template: str


class SpecialTokens(msgspec.Struct):
    """Of special_tokens_map.json, and of tokenizer_config.json, which has more."""

    bos_token: str | Stated | None = None
    eos_token: str | Stated | None = None
    unk_token: str | Stated | None = None
    pad_token: str | Stated | None = None
    sep_token: str | Stated | None = None
    cls_token: str | Stated | None = None
    mask_token: str | Stated | None = None
    additional_special_tokens: list[Any] | None = None  # names, or objects
    add_bos_token: bool | None = None
    add_eos_token: bool | None = None
    chat_template: str | list[NamedTemplate] | None = None
    added_tokens_decoder: dict[int, Stated] = {}  # by id; tokenizer.json has them too

    def named(self) -> list[str | Stated | None]:
        """The tokens that have a part of their own."""
        more = [one for one in self.additional_special_tokens or [] if isinstance(one, str)]
        return [*(getattr(self, name) for name in NAMES), *more]


@dataclass(frozen=True, slots=True)
class FolderText:
    tokenizer: TokenizerData | None
    templates: Mapping[str, str]  # by name: "default", "tool_use"


def read_text(folder: Path, config: Mapping[str, Any]) -> FolderText:
    """`config`: config.json's, with generation_config.json's under "generation_config".

    Raises FormatError for a file that is not what its name says, UnsupportedError.
    """
    tokens = special_tokens(folder)
    file = _tokenizer_file(folder, tokens)
    tokenizer = None if file is None else framed(file, tokens, config)
    return FolderText(tokenizer, read_templates(folder, tokens))


def _tokenizer_file(folder: Path, tokens: SpecialTokens) -> TokenizerFile | None:
    path = inside(folder, NAME)
    if path.is_file():
        return read_tokenizer_json(path, stated_tokens(tokens.added_tokens_decoder, tokens.named()))
    path = inside(folder, "tokenizer.model")
    if path.is_file():
        from pyrite.formats.sentencepiece_model import read_sentencepiece

        return read_sentencepiece(path, _added_pieces(folder, tokens))
    for path in sorted(folder.glob("rwkv_vocab*.txt")):
        from pyrite.formats.rwkv_vocab import read_rwkv_vocab

        return read_rwkv_vocab(inside(folder, path.name))
    return None


def _added_pieces(folder: Path, tokens: SpecialTokens) -> dict[int, tuple[str, bool]]:
    """Tokens that a model of SentencePiece does not hold: text and whether it is special, by id."""
    found = {}
    path = inside(folder, "added_tokens.json")
    if path.is_file():
        for text, token_id in decoded(content_of(path), dict[str, int], path.name).items():
            found[token_id] = (text, False)
    for token_id, token in tokens.added_tokens_decoder.items():
        found[token_id] = (token.content, token.special)
    return found


def special_tokens(folder: Path) -> SpecialTokens:
    """What either file states; tokenizer_config.json's word counts where both do."""
    first = _optional(folder, "tokenizer_config.json") or SpecialTokens()
    second = _optional(folder, "special_tokens_map.json") or SpecialTokens()
    for name in NAMES:
        if getattr(first, name) is None:
            setattr(first, name, getattr(second, name))
    return first


def framed(file: TokenizerFile, tokens: SpecialTokens, config: Mapping[str, Any]) -> TokenizerData:
    """The tokenizer with the tokens that begin and end its texts."""
    data, count = file.data, len(file.data.tokens)
    if not count:  # nothing of it is known
        return data
    bos_id = _named(file, tokens.bos_token, data.bos_id)
    eos_id = _named(file, tokens.eos_token)
    before, after = _frame(file, tokens, bos_id, eos_id)
    if bos_id is None and len(before) == 1:
        bos_id = before[0]
    named = data.eos_ids if eos_id is None else (eos_id,)
    ends = tuple(dict.fromkeys((*named, *after[-1:], *end_ids(config))))
    unknown_id = data.unknown_id
    if unknown_id is None and data.model != "bpe":
        unknown_id = _named(file, tokens.unk_token)
    for token_id in (*before, *after):
        if not 0 <= token_id < count:
            raise FormatError(f"{NAME}: the post-processor adds id {token_id} of {count} tokens")
    return replace(
        data,
        bos_id=bos_id,
        eos_ids=_inside(ends, count),
        unknown_id=unknown_id,
        padding_id=_named(file, tokens.pad_token, data.padding_id),
        add_bos=before == (bos_id,),
        add_eos=after == ends[:1] != (),
        begin_ids=before if before != (bos_id,) else (),
        end_ids=after if after != ends[:1] else (),
    )


def _frame(
    file: TokenizerFile, tokens: SpecialTokens, bos_id: int | None, eos_id: int | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The post-processor's ids, but where tokenizer_config.json says what is to be added."""
    before, after = file.before, file.after
    if tokens.add_bos_token is not None and bos_id is not None:
        before = (bos_id,) if tokens.add_bos_token else ()
    if tokens.add_eos_token is not None and eos_id is not None:
        after = (eos_id,) if tokens.add_eos_token else ()
    return before, after


def end_ids(config: Mapping[str, Any]) -> tuple[int, ...]:
    """`eos_token_id`, one or a list, of config.json and generation_config.json together.

    Raises FormatError for what is no id.
    """
    found: set[int] = set()
    for source in (config, config.get("generation_config") or {}):
        named = source.get("eos_token_id")
        for token_id in named if isinstance(named, list) else [named]:
            if token_id is None:
                continue
            if isinstance(token_id, bool) or not isinstance(token_id, int) or token_id < 0:
                shown = repr(token_id)[:60]
                raise FormatError(f"eos_token_id = {shown}: must be a whole number from 0 on")
            found.add(token_id)
    return tuple(sorted(found))


def _inside(ids: tuple[int, ...], count: int) -> tuple[int, ...]:
    beyond = [token_id for token_id in ids if not 0 <= token_id < count]
    if beyond:
        logger.warning(f"eos_token_id names {beyond[0]}, and the tokenizer has {count} tokens")
    return tuple(token_id for token_id in ids if 0 <= token_id < count)


def read_templates(folder: Path, tokens: SpecialTokens) -> dict[str, str]:
    """By name: of chat_template.jinja, else of chat_template.json, else tokenizer_config.json's;
    and those of the folder additional_chat_templates."""
    found = _listed(tokens.chat_template)
    path = inside(folder, "chat_template.json")
    if path.is_file():
        own = decoded(content_of(path), SpecialTokens, path.name)
        found |= _listed(own.chat_template)
    path = inside(folder, "chat_template.jinja")
    if path.is_file():
        found["default"] = _text(path)
    more = folder / "additional_chat_templates"
    if more.is_dir():
        inside(folder, more.name)
        for path in sorted(more.glob("*.jinja"))[:MAX_TEMPLATES]:
            found[path.stem] = _text(inside(more, path.name))
    return found


def _listed(template: str | list[NamedTemplate] | None) -> dict[str, str]:
    if template is None:
        return {}
    if isinstance(template, str):
        return {"default": template}
    return {one.name: one.template for one in template[:MAX_TEMPLATES]}


def _named(
    file: TokenizerFile, token: str | Stated | None, default: int | None = None
) -> int | None:
    if token is None:
        return default
    return file.find(token if isinstance(token, str) else token.content)


def _optional(folder: Path, name: str) -> SpecialTokens | None:
    path = inside(folder, name)
    return decoded(content_of(path), SpecialTokens, name) if path.is_file() else None


def _text(path: Path) -> str:
    try:
        return content_of(path).decode()
    except UnicodeDecodeError:
        raise FormatError(f"{path.name} is not text in UTF-8") from None
