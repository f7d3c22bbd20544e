"""One request as the scheduler sees it, and the part of it that one step computes."""

from __future__ import annotations

from dataclasses import field

from pyrite.kv.table import PageTable, Parting
from pyrite.records import dataclass


@dataclass(slots=True, eq=False)
class Sequence:
    """Filled by the engine; the fields after `explains` are changed by the scheduler only."""

    request_id: str
    num_tokens: int  # known so far: the prompt and what was sampled
    max_length: int  # num_tokens never exceeds it
    priority: int = 0  # lower goes first
    tenant: str = ""
    table: PageTable = field(default_factory=PageTable)
    num_drafts: int = 0  # guessed tokens after the known ones, to be computed if there is room
    scores_prompt: bool = False  # logits of all its prompt are wanted: no cached prefix may serve
    explains: bool = False  # where its prompt parts from what is cached is wanted
    arrival: int = 0  # a number of its own, ascending
    arrived_at: int = 0  # the step
    advanced_at: int = 0  # the step that computed its last slice
    is_running: bool = False
    was_admitted: bool = False  # once at least
    is_offered: bool = False  # its prompt's pages, to be kept
    num_computed_tokens: int = 0  # whose keys and values are in its pages, and the state after them
    num_again: int = 0  # of the tokens after these, computed and given up with guesses that failed
    kept_to: int = 0  # tokens after which a state is kept on disk, to go on from
    scheduled_to: int = 0  # tokens that are computed after the step which was scheduled last
    stops: list[int] = field(default_factory=list, repr=False)  # positions where its state is kept
    num_cached_tokens: int = 0  # of the prompt, found when it was admitted, or read from disk after
    asked: int = -1  # arrival of the one that was asked to stop where this one parts from it
    parting: Parting | None = field(
        default=None, repr=False
    )  # of the prompt and what was cached then

    @property
    def pages(self) -> list[int]:
        return self.table.pages

    @property
    def num_behind(self) -> int:
        """Tokens that are known and not computed."""
        return self.num_tokens - self.num_computed_tokens

    @property
    def is_stream(self) -> bool:
        """True when only the token that was drawn last is new."""
        return self.num_behind - self.num_again == 1


@dataclass(frozen=True, slots=True)
class Slice:
    """`num_tokens` tokens of a sequence to compute, from its `num_computed_tokens` on; then the
    first `num_drafts` of its guessed ones."""

    sequence: Sequence
    num_tokens: int
    num_drafts: int = 0

    @property
    def reaches_end(self) -> bool:
        """True when the next token can be sampled after this slice."""
        return self.num_tokens == self.sequence.num_behind
