"""A step while it is being scheduled: its slices, and what is left for those to come."""

from __future__ import annotations

from pyrite.kv.kept import Kept
from pyrite.sequence import Sequence, Slice

SCORED_TOKENS = 64  # prompt tokens with logits of their own in one step: each is a whole row


class Step:
    def __init__(self, budget: int, kept: Kept | None) -> None:
        self.slices: list[Slice] = []
        self.scheduled: set[int] = set()  # id() of their sequences
        self.tried: set[int] = set()  # id() of those that had their turn, with or without a slice
        self.budget = budget
        self.num_tokens = 0
        self.scored_budget = SCORED_TOKENS
        self.num_readable = kept.keeper.step_pages if kept else 0  # pages that are kept on disk
        self.has_read = False
        self.heads: list[Sequence] = []  # see Scheduler._heads
        self.heads_at: tuple[int, int] | None = None

    def add(self, work: Slice) -> None:
        self.slices.append(work)
        self.scheduled.add(id(work.sequence))
        self.budget -= work.num_tokens
        self.num_tokens += work.num_tokens
        self.scored_budget -= work.num_tokens * work.sequence.scores_prompt
