"""Tokens that a folder's files add to a vocabulary by name, and how such a name is matched.

tokenizer.json lists them; where tokenizer_config.json says something else of one, or names another,
its word counts, as it does in the `transformers` library. What matching means is unknown here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


class AddedToken(msgspec.Struct):
    """Of tokenizer.json."""

    id: int
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = True
    special: bool = False


class Stated(msgspec.Struct):
    """Of tokenizer_config.json. `normalized` None: where it is not special."""

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool | None = None
    special: bool = False

    def with_id(self, token_id: int, *, special: bool) -> AddedToken:
        """A token that one of the files calls special is."""
        normalized = not self.special if self.normalized is None else self.normalized
        flags = (self.single_word, self.lstrip, self.rstrip, normalized, special or self.special)
        return AddedToken(token_id, self.content, *flags)


def stated_tokens(
    by_id: Mapping[int, Stated], named: Iterable[str | Stated | None]
) -> list[tuple[int | None, Stated]]:
    """By id, then those that are only named: beginning, end and the like, which are special."""
    found: list[tuple[int | None, Stated]] = sorted(by_id.items())
    known = {one.content for one in by_id.values()}
    for token in named:
        one = Stated(token) if isinstance(token, str) else token
        if one is not None and one.content not in known:
            known.add(one.content)
            found.append((None, msgspec.structs.replace(one, special=True)))
    return found


def completed(
    listed: Sequence[AddedToken],
    stated: Iterable[tuple[int | None, Stated]],
    find: Callable[[str], int | None],
    size: int,
) -> tuple[list[AddedToken], list[AddedToken]]:
    """All added tokens; and those of them that tokenizer.json does not have so.

    `find` and `size`: of the vocabulary without them. A token that no file has before is added at
    the id that follows, and left out where it is said to have another one.
    """
    tokens = {token.content: token for token in listed}
    following = max([size, *(token.id + 1 for token in listed)])
    changed = []
    for token_id, one in stated:
        own = tokens.get(one.content)
        known = find(one.content) if own is None else own.id
        if own is not None and token_id is None:
            continue
        if known is None and token_id == following:
            known = following
            following += 1
        if known is None or not one.content:
            continue
        token = one.with_id(known, special=own is not None and own.special)
        if token != own:
            tokens[one.content] = token
            changed.append(token)
    return list(tokens.values()), changed
