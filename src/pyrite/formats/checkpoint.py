"""An opened model: where its tensors lie, its metadata, its tokenizer's data, its chat template.

Both readers (`gguf`, `safetensors`) give this one value, with the names and keys that the file has.
`models.hub` makes of a folder's what a GGUF file of the same model holds. Nothing here knows what
an architecture does with its tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import IntFlag
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError, ModelNotFoundError
from pyrite.quant.formats import bytes_per_row
from pyrite.records import dataclass

if TYPE_CHECKING:
    from pyrite.formats.added_tokens import AddedToken

# Where a folder's metadata say how vectors are pooled; config.json has no such key.
POOLING = "sentence pooling"

INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_model.safetensors"  # as PEFT names it

Normalization = Literal["NFC", "NFD", "NFKC", "NFKD"]
Maker = Callable[[int, int], NDArray[np.uint8]]  # first row and number of rows -> their bytes


@dataclass(frozen=True, slots=True)
class Tensor:
    """`shape` is row-major: (rows, columns) of a matrix whose rows give outputs, (width,), or
    (count, rows, columns) of a stack of matrices.

    `data` is a read-only view of the mapped file, `num_rows * bytes_per_row(type, columns)` bytes.
    A derived tensor (`formats.derived`) is made of other bytes when it is read: `data` are then
    those it is made of, or some of them, and `recipe` says how. `by_group` are its values in fewer
    bits with the columns in another order; what is made of a tensor need not have it.
    """

    name: str
    type: str  # "F32", "Q4_K", ...: a name of pyrite.quant.formats.FORMATS where it is executed
    shape: tuple[int, ...]
    data: NDArray[np.uint8]  # (bytes,)
    make: Maker | None = None
    recipe: str = ""
    by_group: Sorted | None = None

    @property
    def num_rows(self) -> int:
        """Runs of `shape[-1]` values: one of a vector."""
        return math.prod(self.shape[:-1])

    @property
    def num_bytes(self) -> int:
        if self.make is None:
            return self.data.nbytes
        return self.num_rows * bytes_per_row(self.type, self.shape[-1])

    def read(self, first: int = 0, count: int | None = None) -> NDArray[np.uint8]:
        """The bytes of `count` rows from `first` on; of all that follow by default. Read-only."""
        count = self.num_rows - first if count is None else count
        assert 0 <= first <= first + count <= self.num_rows, (self.name, first, count)
        if self.make is not None:
            return self.make(first, count)
        size = len(self.data) // self.num_rows
        return self.data[first * size : (first + count) * size]


@dataclass(frozen=True, slots=True)
class Sorted:
    """Column i of `tensor` is column `order[i]` of the matrix that it stands for."""

    tensor: Tensor
    order: NDArray[np.int64]  # (columns,)


@dataclass(frozen=True, slots=True)
class StringTable:
    """Many byte strings in one mapped buffer, decoded only when asked for."""

    data: NDArray[np.uint8]  # (bytes,) the whole buffer
    starts: NDArray[np.int64]  # (count,) offset of each string's first byte
    lengths: NDArray[np.int32]  # (count,)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> bytes:
        start = int(self.starts[index])
        return self.data[start : start + int(self.lengths[index])].tobytes()


def first_difference(one: StringTable, other: StringTable) -> int | None:
    """The first index whose strings differ, of tables of one size; None when there is none."""
    lengths = np.flatnonzero(one.lengths != other.lengths)
    common = int(lengths[0]) if len(lengths) else len(one)
    texts = np.flatnonzero(_joined(one, common) != _joined(other, common))
    if len(texts):
        return int(np.searchsorted(np.cumsum(one.lengths[:common]), texts[0], side="right"))
    return common if common < len(one) else None


def _joined(table: StringTable, count: int) -> NDArray[np.uint8]:
    """The bytes of the first strings, without what lies between them."""
    lengths = table.lengths[:count].astype(np.int64)
    shifts = table.starts[:count] - (np.cumsum(lengths) - lengths)
    places = np.repeat(shifts, lengths) + np.arange(lengths.sum())
    joined: NDArray[np.uint8] = table.data[places]
    return joined


@dataclass(frozen=True, slots=True)
class TokenizerData:
    """The tokenizer as the file states it; `text.tokenizer` builds one from it."""

    # "bpe": byte-level BPE with merges. "spm": BPE over characters, by scores (SentencePiece's) or
    # by merges. "rwkv": the longest piece first. "library": what is left to the `tokenizers`
    # library, see `source`.
    model: Literal["bpe", "spm", "rwkv", "library"]
    pre: str | None  # the pre-tokenizer's name (tokenizer.ggml.pre), None when the file has none
    tokens: StringTable
    types: NDArray[np.int32] | None  # (count,) 1 normal 2 unknown 3 control 4 user 5 unused 6 byte
    scores: NDArray[np.float32] | None  # (count,) of "spm" by scores
    merges: StringTable | None  # of "bpe" and "spm" by merges: b"left right", by rank
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()  # union of eos, eot and eom keys; the tokenizer's own first
    unknown_id: int | None = None
    padding_id: int | None = None
    add_bos: bool = False
    add_eos: bool = False  # whole texts end with it, prompts do not
    add_space_prefix: bool = True
    # What tokenizer.json states, and GGUF does not.
    marks: NDArray[np.uint8] | None = None  # (count,) bits of Mark; None: by the types
    whole_words: bool | None = None  # a word that is a token is taken as it is; None: by `pre`
    space_prefix: Literal["always", "unless spaced", "first unless spaced"] = "always"
    strips_space: bool | None = None  # decoding takes such a space away; None: where one is put
    cuts_at_spaces: bool = False  # of "spm" by merges: each space begins a word
    begin_ids: tuple[int, ...] = ()  # what texts begin with, where it is not the bos token alone
    end_ids: tuple[int, ...] = ()  # what whole texts end with, where it is not the eos token alone
    normalization: Normalization | None = None  # of what stands between markers
    source: Path | None = None  # of "library": the tokenizer.json
    unknown: str = ""  # of "library": what of it is not known here, in words
    added: tuple[AddedToken, ...] = ()  # of "library": tokens that it has to be told of


class Mark(IntFlag):
    """What a token is besides its type; `native/text/tokenizer.h` has the same bits."""

    MARKER = 1  # matched in the text as it stands
    LEFT = 2  # such a match takes the white space before it along
    RIGHT = 4  # and that after it
    LATE = 8  # it is matched between those that are not late, in text that is normalised
    PIECE = 16  # merges make it


@dataclass(frozen=True, slots=True)
class Checkpoint:
    path: Path
    format: Literal["gguf", "safetensors"]
    architecture: str  # general.architecture of GGUF; model_type of config.json
    metadata: Mapping[str, Any]  # GGUF keys, or config.json's; arrays of strings are StringTables
    tensors: Mapping[str, Tensor]
    config: Mapping[str, Any] = field(default_factory=dict)  # config.json's keys, of a folder
    origins: Mapping[str, str] = field(default_factory=dict)  # which of them a GGUF key is made of
    tokenizer: TokenizerData | None = None
    chat_template: str | None = None  # the default one
    chat_templates: Mapping[str, str] = field(
        default_factory=dict
    )  # by name: "default", "tool_use"
    sampling: Mapping[str, float] = field(default_factory=dict)  # what its maker samples with
    files: tuple[Path, ...] = field(default_factory=tuple)
    num_bytes: int = 0  # of all files together


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Opens a GGUF file (any part of a split one), or a folder: of safetensors, or of one GGUF.

    Tensors are placed, not read; their types may be ones that are only listed. Raises
    ModelNotFoundError, FormatError, UnsupportedError.
    """
    place = Path(path)
    if not place.exists():
        raise ModelNotFoundError(f"there is no file or folder {place}")
    if not place.is_dir():
        return _open_gguf(place)
    if (place / "config.json").exists() and not _is_of_others(place):
        from pyrite.formats.safetensors import open_safetensors

        return open_safetensors(place)
    return _open_gguf(_only_gguf(place))


def _is_of_others(folder: Path) -> bool:
    """GGUF files, or an adapter, beside a config.json and no weights of its own."""
    if any((folder / name).exists() for name in ("model.safetensors", INDEX)):
        return False
    own = [path for path in folder.glob("*.safetensors") if path.name != ADAPTER]
    return not own and ((folder / ADAPTER).exists() or any(folder.glob("*.gguf")))


def _open_gguf(path: Path) -> Checkpoint:
    # The readers give the values above, so this module can only look at them when it is called.
    from pyrite.formats.gguf_checkpoint import open_gguf

    return open_gguf(path)


def _only_gguf(folder: Path) -> Path:
    """The one model in a folder of GGUF files: one file, or the first part of one split model."""
    from pyrite.formats.no_model import no_model
    from pyrite.formats.part_names import is_later_part

    files = sorted(path for path in folder.glob("*.gguf") if not is_later_part(path))
    if len(files) == 1:
        return files[0]
    if files:
        names = ", ".join(path.name for path in files[:8])
        raise FormatError(f"{folder} holds several models: {names}", hint="name one of them")
    raise no_model(folder)
