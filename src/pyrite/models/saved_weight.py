"""The embedding table and the head, which PEFT saves beside the matrices that adapt them.

They must be the model's own: one that grew, or was trained, is another weight.
"""

from __future__ import annotations

import numpy as np

from pyrite.errors import TensorError, UnsupportedError
from pyrite.formats.checkpoint import Tensor
from pyrite.formats.derived import ITEMS, values_of

ROWS_AT_ONCE = 1 << 13
ROUNDED = 2.0**-7  # of a row's length: what two roundings to BF16 may take, and more
QUANTIZED = 0.5  # what a weight of few bits may; another row is off by more than its length
HINT = "merge the adapter into the model with PEFT (merge_and_unload), and load that"


def require_own(saved: Tensor, own: Tensor) -> None:
    """Raises UnsupportedError for another table, TensorError for a value that is no number."""
    if saved.shape != own.shape:
        raise UnsupportedError(
            f"tensor {saved.name} is {saved.shape}, and the model's is {own.shape}: a vocabulary"
            " of another size is not executed with an adapter",
            hint=HINT,
        )
    allowed = ROUNDED if own.type in ITEMS and own.make is None else QUANTIZED
    for first in range(0, own.shape[0], ROWS_AT_ONCE):
        count = min(ROWS_AT_ONCE, own.shape[0] - first)
        theirs, ours = values_of(saved, first, count), values_of(own, first, count)
        lengths = np.maximum(np.linalg.norm(theirs, axis=1), np.linalg.norm(ours, axis=1))
        off = np.linalg.norm(theirs - ours, axis=1)
        if not np.isfinite(off).all():
            raise TensorError(f"tensor {saved.name} holds values that are not finite")
        wrong = np.flatnonzero(off > allowed * np.maximum(lengths, lengths.mean()))
        if len(wrong):
            raise UnsupportedError(
                f"tensor {saved.name} differs from the model's in row {first + int(wrong[0])}: a"
                " trained table is not executed as part of an adapter",
                hint=HINT,
            )
