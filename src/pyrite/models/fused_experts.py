"""The matrices that adapt experts of one parameter, as a GGUF file has the experts' weights.

There gate and up are tensors of their own. Which way the matrices go a parameter's shape tells: by
PEFT before 0.19 the first one goes by the axis that is stored first, whatever that is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyrite.errors import TensorError, UnsupportedError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Checkpoint
from pyrite.models.hub import LAYER
from pyrite.models.lora import ANOTHER, Pair

GATE_UP, DOWN = ("ffn_gate_exps", "ffn_up_exps"), ("ffn_down_exps",)
FUSED = {
    "gate_up_proj": GATE_UP,
    "down_proj": DOWN,
    "input_linear.weight": GATE_UP,
    "output_linear.weight": DOWN,
}
# Gate and up in turn, and parameters whose rows are the input's.
IN_TURN = frozenset({"gpt-oss"})
VERSION = re.compile(r"0\.(\d+)\..*")
Shape = tuple[int, ...]


def fused_in_file(pairs: Mapping[str, Pair], file: Checkpoint, version: str) -> dict[str, Pair]:
    """By GGUF's names. `version`: PEFT's, empty where the adapter does not say.

    Raises TensorError, UnsupportedError.
    """
    parts = {weight: _parts(weight, file) for weight in pairs}
    shapes = {weight: _shape(names, file) for weight, names in parts.items()}
    turned = _are_turned(pairs, shapes, file, version)
    found: dict[str, Pair] = {}
    for weight, pair in pairs.items():
        own = _turned(pair) if turned else pair
        if own.shape != shapes[weight]:
            problem = f"it is for {weight} of {own.shape}, and {file.path.name} has it as"
            raise TensorError(f"{problem} {shapes[weight]}", hint=ANOTHER)
        found |= _cut(own, parts[weight], file.architecture in IN_TURN)
    return found


def _parts(weight: str, file: Checkpoint) -> tuple[str, ...]:
    """The file's tensors that a parameter is."""
    layer = LAYER.fullmatch(weight)
    kind = next((one for one in FUSED if weight.endswith("." + one)), None)
    names = (
        [f"blk.{int(layer['layer'])}.{one}.weight" for one in FUSED[kind]] if layer and kind else []
    )
    if not names or any(len(file.tensors[one].shape) != 3 for one in names if one in file.tensors):
        names = [weight]
    if any(one not in file.tensors for one in names):
        raise TensorError(f"it is for {weight}, which {file.path.name} has not", hint=ANOTHER)
    return tuple(names)


def _shape(names: tuple[str, ...], file: Checkpoint) -> Shape:
    experts, rows, columns = file.tensors[names[0]].shape
    return experts, len(names) * rows, columns


def _are_turned(
    pairs: Mapping[str, Pair], shapes: Mapping[str, Shape], file: Checkpoint, version: str
) -> bool:
    """Whether first matrices are where second ones should be: in all, or in none."""
    telling = [weight for weight, (_, rows, columns) in shapes.items() if rows != columns]
    if telling:
        experts, rows, columns = pairs[telling[0]].shape
        return shapes[telling[0]] == (experts, columns, rows)
    match = VERSION.fullmatch(version)
    if pairs and file.architecture not in IN_TURN and not (match and int(match[1]) >= 19):
        raise UnsupportedError(
            f"{next(iter(pairs))} is square, and peft_version = {version!r} leaves open which way"
            " its matrices go",
            hint="save the adapter again with PEFT 0.19 or newer",
        )
    return False


def _turned(pair: Pair) -> Pair:
    down, up = derived.transposed(pair.up), derived.transposed(pair.down)
    return Pair(down, up, pair.scale)


def _cut(pair: Pair, names: tuple[str, ...], in_turn: bool) -> dict[str, Pair]:
    """Of the rows of each expert a part for each name."""
    rows = pair.shape[1] // len(names)
    step = len(names) if in_turn else 1
    return {
        name: pair.with_rows(
            derived.rows_of_each(pair.up, name, index if in_turn else index * rows, rows, step)
        )
        for index, name in enumerate(names)
    }
