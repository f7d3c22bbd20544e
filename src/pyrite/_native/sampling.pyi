from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

class Settings:
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_range: int
    xtc_probability: float
    xtc_threshold: float
    seed: int
    choice: int
    min_tokens: int
    logprobs: int
    def __init__(self) -> None: ...

class State:
    def __init__(
        self,
        settings: Settings,
        size: int,
        prompt: NDArray[np.int32],
        bias_ids: NDArray[np.int32],
        bias_values: NDArray[np.float32],
        end_ids: NDArray[np.int32],
        breakers: NDArray[np.int32],
    ) -> None: ...
    def accept(self, token: int) -> None: ...
    @property
    def step(self) -> int: ...

class Scratch:
    def __init__(self) -> None: ...

def sample_batch(
    scratch: Scratch,
    states: Sequence[State],
    logits: NDArray[np.float32],
    rows: NDArray[np.int32],
    masks: NDArray[np.uint32],
    mask_rows: NDArray[np.int32],
    tokens: NDArray[np.int32],
    statuses: NDArray[np.int32],
    logprobs: NDArray[np.float32],
    top_tokens: NDArray[np.int32],
    top_logprobs: NDArray[np.float32],
) -> None: ...
def score_rows(
    scratch: Scratch,
    logits: NDArray[np.float32],
    size: int,
    tokens: NDArray[np.int32],
    logprobs: NDArray[np.float32],
    top_tokens: NDArray[np.int32],
    top_logprobs: NDArray[np.float32],
) -> int: ...
def random_at(seed: int, choice: int, step: int) -> tuple[float, float]: ...

class Ngrams:
    def __init__(self) -> None: ...
    def append(self, token: int) -> int: ...
    def extend(self, tokens: NDArray[np.int32]) -> None: ...
    def predict(self, count: int) -> list[int]: ...
    @property
    def length(self) -> int: ...
