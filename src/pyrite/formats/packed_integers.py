"""GPTQ's and AWQ's matrices: codes of 4 or 8 bits in words of 32, with scales and zeros by group.

    GPTQ   qweight (inputs / 8, outputs), eight inputs a word, the lowest bits first
    AWQ    qweight (inputs, outputs / 8), eight outputs a word in the order 0 2 4 6 1 3 5 7
    both   scales (groups, outputs), qzeros (groups, outputs / 8) packed like outputs of its kind

A weight is (code - zero) * scale of its group. GPTQ's zeros are stored less one, unless
checkpoint_format is "gptq_v2"; its g_idx says which group each input is in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats.checkpoint import Maker, Sorted, Tensor
from pyrite.formats.derived import encoded, values_of
from pyrite.formats.exact_blocks import BLOCK, blocks
from pyrite.records import dataclass

Words = NDArray[np.uint32]
Codes = NDArray[np.int16]
Floats = NDArray[np.float32]

WORDS = ("I32", "U32")  # that hold codes
FLOATS = ("F32", "F16", "BF16")  # that scales are
IN_ORDER = tuple(range(8))
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # which of eight outputs is at each place of a word


@dataclass(frozen=True, slots=True)
class Parts:
    """The tensors that one matrix is made of, by the last part of their names."""

    name: str  # of the matrix
    tensors: Mapping[str, Tensor]

    def get(self, kind: str, types: Sequence[str], shape: Sequence[int] | None = None) -> Tensor:
        """Raises TensorError when it is missing, or has another type or shape."""
        tensor = self.tensors.get(kind)
        if tensor is None:
            raise TensorError(f"{self.name}: {kind} is missing")
        if tensor.type not in types:
            raise TensorError(f"{tensor.name} has type {tensor.type}: {' or '.join(types)} is read")
        if shape is not None and tensor.shape != tuple(shape):
            raise TensorError(f"{tensor.name} is {tensor.shape} and must be {tuple(shape)}")
        return tensor

    def matrix(self, kind: str, types: Sequence[str]) -> Tensor:
        tensor = self.get(kind, types)
        if len(tensor.shape) != 2:
            raise TensorError(f"{tensor.name} is {tensor.shape}: must be a matrix")
        return tensor

    def made(self, type: str, shape: tuple[int, int], make: Maker, recipe: str) -> Tensor:
        data = next(iter(self.tensors.values())).data
        return Tensor(self.name, type, shape, data, make, recipe)


@dataclass(frozen=True, slots=True)
class Grouping:
    """Inputs under one scale, and how many groups there are."""

    inputs: int
    group: int

    @property
    def count(self) -> int:
        return -(-self.inputs // self.group)


def read_gptq(parts: Parts, settings: Mapping[str, Any]) -> Tensor:
    bits = _bits(settings, (4, 8))
    per_word = 32 // bits
    packed = parts.matrix("qweight", WORDS)
    inputs, outputs = packed.shape[0] * per_word, packed.shape[1]
    groups = grouping(parts.name, settings, inputs)
    words = _words(packed)
    scales = parts.get("scales", FLOATS, (groups.count, outputs))
    zeros = parts.get("qzeros", WORDS, (groups.count, outputs // per_word))
    stated = settings.get("checkpoint_format") or settings.get("format")
    less = 0 if stated == "gptq_v2" else 1

    def codes(first: int, count: int) -> Codes:
        """Less their zeros. (count, inputs)"""
        raw = unpacked(words[:, first : first + count].T, bits)
        own = zeros_of(zeros, bits, IN_ORDER, first, count) + np.int16(less)
        return raw - by_input(own, order, groups)

    if settings.get("desc_act") and "g_idx" not in parts.tensors:
        raise TensorError(f"{parts.name}: g_idx is missing, and desc_act is true")
    order = _order(parts, groups)
    is_symmetric = bool(settings.get("sym", False))
    return _made(parts, codes, scales, order, groups, bits, is_symmetric, outputs)


def read_awq(parts: Parts, settings: Mapping[str, Any]) -> Tensor:
    bits = _bits(settings, (4,))
    version = str(settings.get("version", "gemm")).lower()
    if version != "gemm":
        raise UnsupportedError(
            f"quantization_config.version = {version!r} is not executed here",
            hint="AWQ models in the layout gemm are",
        )
    packed = parts.matrix("qweight", WORDS)
    inputs, outputs = packed.shape[0], packed.shape[1] * 8
    groups = grouping(parts.name, settings, inputs)
    scales = parts.get("scales", FLOATS, (groups.count, outputs))
    zeros = parts.get("qzeros", WORDS, (groups.count, outputs // 8))

    def codes(first: int, count: int) -> Codes:
        raw = outputs_of(packed, AWQ_ORDER, first, count).T
        own = zeros_of(zeros, bits, AWQ_ORDER, first, count)
        return raw - by_input(own, None, groups)

    return _made(parts, codes, scales, None, groups, bits, False, outputs)


def grouping(name: str, settings: Mapping[str, Any], inputs: int) -> Grouping:
    """Raises UnsupportedError for groups that are no multiple of a block."""
    size = settings.get("group_size", settings.get("q_group_size", -1))
    if not isinstance(size, int) or size == 0 or size < -1:
        raise FormatError(f"quantization_config.group_size = {size!r}: must be -1 or above 0")
    size = inputs if size == -1 else size
    if size % BLOCK or inputs % size:
        raise UnsupportedError(
            f"{name} has groups of {size} of {inputs} inputs",
            hint=f"groups that are a multiple of {BLOCK} and cut the inputs evenly are executed",
        )
    return Grouping(inputs, size)


def _bits(settings: Mapping[str, Any], known: tuple[int, ...]) -> int:
    bits = settings.get("bits", settings.get("w_bit", 4))
    if bits not in known:
        wanted = " and ".join(map(str, known))
        raise UnsupportedError(f"quantization_config.bits = {bits!r}: {wanted} are executed here")
    return int(bits)


def _order(parts: Parts, groups: Grouping) -> NDArray[np.int64] | None:
    """The group of each input, where they do not follow one another."""
    tensor = parts.tensors.get("g_idx")
    if tensor is None:
        return None
    if tensor.shape != (groups.inputs,) or tensor.type not in ("I32", "I64"):
        raise TensorError(f"{tensor.name} is {tensor.type} {tensor.shape}, one number an input")
    order = tensor.read().view("<i4" if tensor.type == "I32" else "<i8").astype(np.int64)
    if order.min() < 0 or order.max() >= groups.count:
        wrong = order.min() if order.min() < 0 else order.max()
        raise FormatError(
            f"{tensor.name} names group {wrong}: from 0 to {groups.count - 1} are there"
        )
    return None if (order == np.arange(groups.inputs) // groups.group).all() else order


def _made(
    parts: Parts,
    codes: Any,
    scales: Tensor,
    order: NDArray[np.int64] | None,
    groups: Grouping,
    bits: int,
    is_symmetric: bool,
    outputs: int,
) -> Tensor:
    type = "Q8_0" if bits == 8 else "Q4_0" if is_symmetric else "Q5_0"
    shape = (outputs, groups.inputs)
    columns = None if order is None else np.argsort(order, kind="stable")

    def make(first: int, count: int) -> NDArray[np.uint8]:
        own, found = scales_of(scales, first, count), codes(first, count)
        return blocks(parts.name, type, found if columns is None else found[:, columns], own)

    made = parts.made(type, shape, make, f"{bits} bits")
    if order is None or columns is None:
        return made
    whole = _out_of_order(parts, codes, scales, order, shape)
    if (order[columns] != np.arange(groups.inputs) // groups.group).any():
        return whole  # groups of several sizes
    return replace(whole, by_group=Sorted(made, columns))


def _out_of_order(
    parts: Parts, codes: Any, scales: Tensor, order: NDArray[np.int64], shape: tuple[int, int]
) -> Tensor:
    """For whoever needs the columns as they are: neighbours have different scales, and no block
    of ours has."""

    def make(first: int, count: int) -> NDArray[np.uint8]:
        own = scales_of(scales, first, count)[:, order]
        return encoded(codes(first, count).astype(np.float32) * own, "F16")

    return parts.made("F16", shape, make, "out of order")


def unpacked(words: Words, bits: int, order: Sequence[int] = IN_ORDER) -> Codes:
    """Codes of the last axis' words, lowest bits first: place i of a word is number order[i]."""
    per_word = 32 // bits
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    values = (words[..., None] >> shifts) & np.uint32((1 << bits) - 1)
    if tuple(order) != IN_ORDER:
        values = values[..., np.argsort(order)]
    return values.astype(np.int16).reshape(*words.shape[:-1], words.shape[-1] * per_word)


def outputs_of(packed: Tensor, order: Sequence[int], first: int, count: int) -> Codes:
    """Of words along outputs, those of some outputs. (rows of the tensor, count)"""
    start, end = first // 8, -(-(first + count) // 8)
    found = unpacked(_words(packed)[:, start:end], 4, order)
    return found[:, first - start * 8 :][:, :count]


def zeros_of(tensor: Tensor, bits: int, order: Sequence[int], first: int, count: int) -> Codes:
    """(count, groups)"""
    per_word = 32 // bits
    start, end = first // per_word, -(-(first + count) // per_word)
    found = unpacked(_words(tensor)[:, start:end], bits, order)
    return found[:, first - start * per_word :][:, :count].T


def scales_of(tensor: Tensor, first: int, count: int) -> Floats:
    """Of (groups, outputs). (count, groups)"""
    return values_of(tensor)[:, first : first + count].T


def by_input(values: Codes, order: NDArray[np.int64] | None, groups: Grouping) -> Codes:
    """From a number a group to one an input. (rows, inputs)"""
    if order is not None:
        return values[:, order]
    return np.repeat(values, groups.group, axis=1)


def _words(tensor: Tensor) -> Words:
    return tensor.read().view("<u4").reshape(tensor.shape)
