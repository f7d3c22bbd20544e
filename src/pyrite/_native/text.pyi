import numpy as np
from numpy.typing import NDArray

def scan_strings(
    data: NDArray[np.uint8],
    offset: int,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int32],
) -> int: ...

class Tokenizer:
    @staticmethod
    def byte_pair(
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int32],
        types: NDArray[np.int32],
        unknown_id: int,
        marks: NDArray[np.uint8],
        merge_data: NDArray[np.uint8],
        merge_starts: NDArray[np.int64],
        merge_lengths: NDArray[np.int32],
        splitter: str,
        whole_word_first: bool | None,
    ) -> Tokenizer: ...
    @staticmethod
    def scored_pieces(
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int32],
        types: NDArray[np.int32],
        unknown_id: int,
        marks: NDArray[np.uint8],
        scores: NDArray[np.float32],
        prefix: int,
    ) -> Tokenizer: ...
    @staticmethod
    def merged_pieces(
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int32],
        types: NDArray[np.int32],
        unknown_id: int,
        marks: NDArray[np.uint8],
        merge_data: NDArray[np.uint8],
        merge_starts: NDArray[np.int64],
        merge_lengths: NDArray[np.int32],
        prefix: int,
    ) -> Tokenizer: ...
    @staticmethod
    def greedy(
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int32],
        types: NDArray[np.int32],
        unknown_id: int,
        marks: NDArray[np.uint8],
    ) -> Tokenizer: ...
    def encode(self, text: bytes, special: bool) -> NDArray[np.int32]: ...
    def encode_within(self, text: bytes, edges: NDArray[np.int64]) -> NDArray[np.int32]: ...
    def find_markers(self, text: bytes, edges: NDArray[np.int64]) -> NDArray[np.int64]: ...
    def encode_between(self, text: bytes, first: bool) -> NDArray[np.int32]: ...
    def decode(self, ids: NDArray[np.int32], skip_special: bool) -> bytes: ...
    def token_bytes(self, id: int) -> bytes: ...
    def __len__(self) -> int: ...
    @property
    def num_dead_merges(self) -> int: ...
    @property
    def num_missing_bytes(self) -> int: ...

def splitter_names() -> str: ...
def word_ends(text: bytes, splitter: str) -> NDArray[np.int32]: ...
