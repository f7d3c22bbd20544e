"""Prompts of random words with a wanted number of tokens, on a server whose tokenizer is unknown.

The server counts: `usage.prompt_tokens` of a few short requests tells what surrounds a prompt
(template, beginning of text) and which common words are one token each there. From then on a prompt
of n tokens is n words less the surroundings. The same for every server that reports usage.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pyrite.errors import ParameterError, RequestError

ANCHOR = "Read"  # begins every part, so that all words after it have a blank before them
ENOUGH_WORDS = 128
FEWEST_WORDS = 16
GROUP = 32
SMALLEST_GROUP = 4

COMMON = """
time year people way day man thing woman life child world school state family student group country
problem hand part place case week company system program question work government number night
point home water room mother area money story fact month lot right study book eye job word business
issue side kind head house service friend father power hour game line end member law car city
community name president team minute idea body information back parent face others level office door
health person art war history party result change morning reason research girl guy moment air
teacher force education good new first last long great little own other old big high different small
large next early young important few public bad same able best better sure free true whole real
white black human local late hard major current national natural physical short common poor single
open simple north south east west green red blue dark light hot cold warm cool dry clean clear deep
wide flat soft loud fast slow rich fair strong weak heavy fine sweet fresh sharp round thick thin
tree river road field forest mountain ocean island bird horse dog cat fish stone paper glass wood
metal gold silver bread meat fruit milk sugar salt table chair window wall floor roof garden bridge
train plane ship boat wheel engine machine tool box bag shirt shoe hat ring clock phone radio
picture song dance film play sport ball race prize market price tax bank card
"""
WORDS = tuple(COMMON.split())

# Counts the tokens of a prompt: (shared part, own part). An empty shared part is left away.
Count = Callable[[str, str], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words of one token each, and the tokens that are there without any."""

    words: tuple[str, ...]
    around: int  # with an own part alone
    around_shared: int  # with a shared part before it


async def learn(count: Count, *, shared: bool) -> Vocabulary:
    """Asks the server. Raises RequestError when it knows too few of the words as one token."""
    around = await count("", ANCHOR)
    words: list[str] = []
    for start in range(0, len(WORDS), GROUP):
        words += await _single(count, WORDS[start : start + GROUP], around)
        if len(words) >= ENOUGH_WORDS:
            break
    if len(words) < FEWEST_WORDS:
        raise RequestError(
            f"only {len(words)} of {len(WORDS)} common words are one token on this server, or its "
            "counts are no counts",
            hint="it must report usage.prompt_tokens",
        )
    return Vocabulary(tuple(words), around, await count(ANCHOR, ANCHOR) if shared else around)


async def _single(count: Count, words: Sequence[str], around: int) -> list[str]:
    """Those of the words that are one token each; small groups with another one are dropped."""
    if len(words) < SMALLEST_GROUP:
        return []
    if await count("", joined(words)) - around == len(words):
        return list(words)
    half = len(words) // 2
    return await _single(count, words[:half], around) + await _single(count, words[half:], around)


def joined(words: Sequence[str]) -> str:
    return " ".join([ANCHOR, *words])


@dataclass(frozen=True, slots=True)
class Prompt:
    shared: str  # the same in every prompt; may be empty
    own: str


class PromptMaker:
    """Prompts of one run. The same seed gives the same prompts on the same server."""

    def __init__(self, vocabulary: Vocabulary, *, shared_tokens: int, dice: random.Random) -> None:
        self._vocabulary = vocabulary
        self._dice = dice
        self._shared_tokens = shared_tokens
        self._shared = joined(self._draw(shared_tokens - 1)) if shared_tokens else ""

    def make(self, num_tokens: int) -> Prompt:
        """Raises ParameterError when the surroundings alone are longer."""
        around = self._vocabulary.around
        if self._shared_tokens:
            around = self._vocabulary.around_shared + self._shared_tokens - 1
        if num_tokens < around:
            raise ParameterError(
                "--prompt-tokens", num_tokens, f"at least {around}: what this server adds around it"
            )
        return Prompt(self._shared, joined(self._draw(num_tokens - around)))

    def _draw(self, count: int) -> list[str]:
        return self._dice.choices(self._vocabulary.words, k=count)
